"""Query logs as files (S4-03, S4-05)."""

from pathlib import Path

import pytest

from opilio.core.errors import TopicError
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import LoggedQuery, build_query_log_reader, read_query_log, split_intervals
from opilio.manage.topic_builder import QueryLogInput, keywords_from_log
from opilio.text.vocabulary import Vocabulary
from opilio.topic.setup import resolve_settings
from opilio.topic.weights import QueryLogSmoothing

S4_09 = (
    "Kejriwal new manifesto for lok sabha polls 2014.\n"
    "Manifesto of BJP for lok sabha polls 2014.\n\n"
    "lok sabha polls 2014 dates\n"
)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_log_has_a_query_a_line_s4_03(tmp_path: Path) -> None:
    asked = read_query_log(written(tmp_path, S4_09))
    assert len(asked) == 3 and asked[2] == LoggedQuery("lok sabha polls 2014 dates")


@pytest.mark.parametrize("time", ["2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00", "1769860800", ""])
def test_log_may_be_csv_with_time(tmp_path: Path, time: str) -> None:
    path = written(tmp_path, f'\ufefftime,user,query\n{time},7,"wrens, small"\n')
    assert read_query_log(path) == [LoggedQuery("wrens, small", 1769860800.0 if time else 0.0)]


@pytest.mark.parametrize(
    "text",
    [
        'time;query\n5;"wren\nsong"\n',
        "AnonID\tQuery\tQueryTime\tItemRank\n142\twren song\t1970-01-01 00:00:05\t\textra\n",
        '"query","time"\r\nwren song,5\r\n',
    ],
)
def test_log_may_be_a_table_of_another_kind(tmp_path: Path, text: str) -> None:
    (asked,) = read_query_log(written(tmp_path, text))
    assert (asked.text.split(), asked.at) == (["wren", "song"], 5.0)


def test_quotes_are_a_part_of_queries_between_tabs(tmp_path: Path) -> None:
    path = written(tmp_path, 'query\ttime\n"wren song\t5\nnest\t6\n')
    assert read_query_log(path) == [LoggedQuery('"wren song', 5.0), LoggedQuery("nest", 6.0)]


def test_first_query_may_be_longer_than_a_cell_of_csv(tmp_path: Path) -> None:
    assert len(read_query_log(written(tmp_path, "wren " * 40_000 + "\nnest\n"))) == 2


@pytest.mark.parametrize(
    ("asked", "language", "word"),
    [
        (["हिन्दी भाषा", "हिन्दी व्याकरण"], "hindi", "हिन्दी"),
        (["cafe\u0301 noir", "caf\u00e9 creme"], "french", "caf\u00e9"),
        (["中国鸟类", "鸟类学"], "", "鸟类"),
    ],
)
def test_queries_are_cut_into_words_as_pages_are(asked: list[str], language: str, word: str) -> None:
    logged = QueryLogInput([LoggedQuery(text) for text in asked])
    found = keywords_from_log(logged, QueryLogSmoothing(memory=0.5, threshold=1.0), Vocabulary(language))
    assert list(found) == [word]


def test_log_of_one_column_may_have_a_header(tmp_path: Path) -> None:
    assert read_query_log(written(tmp_path, "query\nwrens\n")) == [LoggedQuery("wrens")]


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b"caf\xe9\n", "is not UTF-8 text"),
        ("wrens\n".encode("utf-16-le"), "is not UTF-8 text"),
        ("time,query\nyesterday,wrens\n", "line 2: 'yesterday' is not a time"),
        ("time,query\n1,wrens\nnan,wrens\n", "line 3: 'nan' is not a time"),
        ('time,query\n1,"wrens\n' + "2,robins\n" * 20_000, "line .*; perhaps a quote is left open"),
    ],
)
def test_log_that_can_not_be_read_is_refused(tmp_path: Path, content: str | bytes, result: str) -> None:
    with pytest.raises(TopicError, match=result):
        read_query_log(written(tmp_path, content))


@pytest.mark.parametrize(("name", "header"), [("log", "foo,time"), ("log.csv", "foo,bar")])
def test_log_with_columns_but_none_of_queries_is_refused(tmp_path: Path, name: str, header: str) -> None:
    (tmp_path / name).write_text(f"{header}\nwrens,2024-01-01\n")
    with pytest.raises(TopicError, match=f"has the columns {header.replace(',', ', ')}; call that of the queries"):
        read_query_log(tmp_path / name)


def test_plain_queries_may_hold_commas(tmp_path: Path) -> None:
    assert read_query_log(written(tmp_path, "wrens, robins\n")) == [LoggedQuery("wrens, robins")]


def test_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match="can't be read"):
        read_query_log(tmp_path / "none")


def test_intervals_follow_the_time() -> None:
    asked = [LoggedQuery("c", 7300.0), LoggedQuery("a", 100.0), LoggedQuery("b", 3699.0), LoggedQuery("d", 14_499.0)]
    assert split_intervals(asked, 3600.0) == [["a", "b"], [], ["c"], ["d"]]
    assert split_intervals(asked, 0.0) == [["a", "b", "c", "d"]]
    assert split_intervals([], 3600.0) == [[]]


def test_queries_without_a_time_are_of_the_first_interval() -> None:
    assert split_intervals([LoggedQuery("b", 1e9), LoggedQuery("a"), LoggedQuery("c", 1e9 + 7200.0)], 3600.0) == [
        ["a", "b"],
        [],
        ["c"],
    ]


def test_long_silence_costs_little() -> None:
    asked = [LoggedQuery("a", 1.0), LoggedQuery("b", 1e9)]
    assert len(split_intervals(asked, 1e-3)) < 100


def test_keywords_of_the_papers_log_s4_09_s4_11_s4_e1(tmp_path: Path) -> None:
    logged = QueryLogInput(read_query_log(written(tmp_path, S4_09)))
    vocabulary = Vocabulary(phrases=("lok sabha",))
    found = keywords_from_log(logged, QueryLogSmoothing(memory=0.5, threshold=1.0), vocabulary)
    assert found == pytest.approx({"lok sabha": 1.0, "polls": 1.0, "manifesto": 1.0 / 1.5, "2014": 1.0})


def test_old_questions_fade_by_the_hour_s4_07() -> None:
    asked = [LoggedQuery("wrens", 1e9)] * 4 + [LoggedQuery("storks", 1e9 + 3600.0)] * 4
    found = keywords_from_log(QueryLogInput(asked, hours=1.0), QueryLogSmoothing(threshold=0.5), Vocabulary())
    assert found["storks"] == 1.0 and found["wrens"] == 0.5


@pytest.mark.parametrize(("silent", "left"), [(1, 0.25), (2, 0.125), (300, None)])
def test_old_queries_fade_without_new_ones_s4_07_s4_e8(silent: int, left: float | None) -> None:
    asked = [LoggedQuery("wrens", 1e9)] * 4 + [LoggedQuery("storks", 1e9 + 3600.0 * (1 + silent))] * 4
    found = keywords_from_log(QueryLogInput(asked, hours=1.0), QueryLogSmoothing(threshold=0.1), Vocabulary())
    assert found["storks"] == 1.0 and found.get("wrens") == left


def test_log_without_a_keyword_is_refused() -> None:
    with pytest.raises(TopicError, match="no word reaches"):
        keywords_from_log(QueryLogInput([LoggedQuery("wrens")]), QueryLogSmoothing(threshold=5.0), Vocabulary())


def test_log_that_was_begun_anew_is_read_from_its_beginning_s4_05(tmp_path: Path) -> None:
    path = written(tmp_path, "wren\nwren\nwren\n")
    tree = {"strategy": "s4-dynamic", "topic": {"name": "birds"}, "expansion": {"log": str(path)}}
    read_on = build_query_log_reader(complete_settings(resolve_settings(tree)), Vocabulary())
    assert read_on is not None
    assert read_on(0)[:2] == ([["wren"]] * 3, 3)
    written(tmp_path, "stork\n")
    assert read_on(3)[:2] == ([["stork"]], 1)
    path.unlink()
    assert read_on(1)[:2] == ([], 1)  # being replaced: the place in it stays
