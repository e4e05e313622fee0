"""Labels of users: stored, learned at once by a stopped or a running crawl, the last one counts."""

import json
import threading
from pathlib import Path

import pytest

from checks.explanations import explained_page
from checks.learning_webs import HUB, learning_tree, mixed_web, restored
from checks.small_webs import PATIENCE_S, SmallWeb, crawl, one_line, opilio, rows, served
from opilio.cli.text_output import format_why
from opilio.core.errors import UsageError
from opilio.core.events import BatchCommitted, Event
from opilio.judge.learned import MIN_LABELS
from opilio.manage.label import LabelRequest, label_pages, read_label_file
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why

TRAIN = "http://trains.example/"
BIRD = "http://birds.example/birds-1.html"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A crawl that stopped with much in its queue."""
    with served(SmallWeb(mixed_web())) as server:
        crawl(tmp_path / "c", learning_tree(server, stop={"pages": 20}, engine={"connections": 2, "batch": 1}))
    assert rows(tmp_path / "c", "SELECT count(*) FROM page WHERE url = ?", TRAIN) == [(1,)]
    return tmp_path / "c"


def one_why(folder: Path, url: str) -> str:
    return "\n".join(format_why(why(folder, url)))


def given(url: str, relevant: bool | None) -> LabelRequest:
    return LabelRequest(url, relevant, "test")


def test_label_changes_verdict_counters_judge_and_queue(folder: Path) -> None:
    before, model = collection_status(folder), restored(folder).committee.snapshot()
    queued = "SELECT url, score FROM frontier_url WHERE state = 0 AND url LIKE '%trains%'"
    scores = dict(rows(folder, queued))
    report, problems = label_pages(folder, [given(TRAIN, True)], 5.0)
    assert (problems, report.labels, report.verdicts_changed, report.running) == ([], 1, 1, False)
    assert report.moved > 0
    assert all(score > scores[url] for url, score in rows(folder, queued))
    assert len(report.top_moves) == 5
    after = collection_status(folder)
    assert (after.relevant, after.pages) == (before.relevant + 1, before.pages)
    page = explained_page(folder, TRAIN)
    assert (page.relevant, page.score, page.reasons[0].name) == (True, 1.0, "labelled by hand")
    assert restored(folder).committee.snapshot() != model
    assert rows(folder, "SELECT key, relevant, at, length(sample) > 0 FROM label")[0][1:] == (1, 5.0, 1)
    assert rows(folder, "SELECT count(*) FROM event WHERE kind = 'PageLabeled'") == [(1,)]
    assert verify(folder) == []


def test_labels_correct_the_scores_of_other_pages(folder: Path) -> None:
    pages = rows(folder, "SELECT url, score, relevant FROM page WHERE duplicate_of = 0 ORDER BY seq")
    (other, score, _), *labelled = pages[: MIN_LABELS + 1]
    assert explained_page(folder, other).probability is None
    # Every label contradicts the judge in the same direction.
    label_pages(folder, [given(url, False) for url, *_ in labelled], 5.0)
    page = explained_page(folder, other)
    assert page.labels == MIN_LABELS
    assert page.probability is not None
    assert page.probability < page.score == score
    assert f"{MIN_LABELS} labels of other pages correct its score to {page.probability:.3f}" in one_why(folder, other)
    assert explained_page(folder, labelled[0][0]).probability is None
    label_pages(folder, [given(labelled[0][0], None)], 6.0)
    assert explained_page(folder, other).probability is None


def test_estimate_of_what_is_left_follows_a_label(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with served(SmallWeb(mixed_web())) as server:
        # Without waste control, which gives up the side without birds.
        tree = learning_tree(server, stop={"pages": 40}, engine={"connections": 2, "batch": 1})
        crawl(folder, {**tree, "frontier": {"traps": False}})
    before = collection_status(folder).expected_relevant
    label_pages(folder, [given(TRAIN, True)], 5.0)
    after = collection_status(folder).expected_relevant
    assert before is not None
    assert after is not None
    assert (after > before, after) == (True, round(restored(folder).yield_estimate.expected or 0.0, 2))


def test_movers_are_reported_as_they_stood_in_the_queue(folder: Path) -> None:
    stored = dict(rows(folder, "SELECT url, score FROM frontier_url WHERE state = 0"))
    report, _ = label_pages(folder, [given(TRAIN, True)], 5.0)
    now = dict(rows(folder, "SELECT url, score FROM frontier_url WHERE state = 0"))
    assert {m.url: m.before for m in report.top_moves} == pytest.approx(
        {m.url: stored[m.url] for m in report.top_moves}
    )
    assert {m.url: m.after for m in report.top_moves} == pytest.approx({m.url: now[m.url] for m in report.top_moves})


def test_last_label_wins_when_labels_contradict(folder: Path) -> None:
    report, _ = label_pages(folder, [given(BIRD, False), given(BIRD, True), given(BIRD, False)], 5.0)
    assert not explained_page(folder, BIRD).relevant
    assert (report.labels, rows(folder, "SELECT count(*) FROM label")) == (1, [(1,)])
    label_pages(folder, [given(BIRD, True)], 6.0)
    assert explained_page(folder, BIRD).relevant
    assert verify(folder) == []


def test_same_label_again_teaches_nothing_new(folder: Path) -> None:
    label_pages(folder, [given(TRAIN, True)], 5.0)
    model = restored(folder).committee.snapshot()
    report, _ = label_pages(folder, [given(TRAIN, True)], 6.0)
    assert (report.verdicts_changed, report.moved) == (0, 0)
    assert restored(folder).committee.snapshot() == model


def test_word_taken_back_leaves_the_judges_verdict_and_model(folder: Path) -> None:
    before, counts = explained_page(folder, TRAIN), collection_status(folder).relevant
    label_pages(folder, [given(TRAIN, True)], 5.0)
    label_pages(folder, [given(TRAIN, False)], 6.0)
    label_pages(folder, [given(TRAIN, True)], 7.0)
    taught = restored(folder).committee.snapshot()
    report, problems = label_pages(folder, [given(TRAIN, None)], 8.0)
    assert (problems, report.labels, report.verdicts_changed) == ([], 1, 1)
    assert report.moved > 0
    assert explained_page(folder, TRAIN) == before
    assert collection_status(folder).relevant == counts
    assert restored(folder).committee.snapshot() != taught
    assert rows(folder, "SELECT count(*) FROM event WHERE kind = 'LabelRemoved'") == [(1,)]
    assert "has no label to remove" in label_pages(folder, [given(TRAIN, None)], 9.0)[1][0]
    assert label_pages(folder, [given(TRAIN, True)], 10.0)[0].verdicts_changed == 1  # and may be given again
    assert verify(folder) == []


def test_word_is_taken_back_once_when_two_people_ask(folder: Path) -> None:
    label_pages(folder, [given(TRAIN, True)], 5.0)
    label_pages(folder, [given(TRAIN, None), given(TRAIN, None)], 6.0)
    assert rows(folder, "SELECT count(*) FROM event WHERE kind = 'LabelRemoved'") == [(1,)]
    assert not explained_page(folder, TRAIN).relevant


def test_labelled_crawl_continues_towards_the_label(folder: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        label_pages(folder, [given(TRAIN, True), given(HUB, False)], 5.0)
        crawl(folder, learning_tree(server, stop={"pages": 30}, engine={"connections": 2, "batch": 1}))
    assert collection_status(folder).pages == 30
    assert verify(folder) == []


def test_labels_are_taken_up_by_a_running_crawl(tmp_path: Path) -> None:
    """The label is stored beside the crawl, whose next commit takes it up."""
    folder, ready, labelled = tmp_path / "c", threading.Event(), threading.Event()
    commits = 0

    def listen(event: Event) -> None:
        nonlocal commits
        commits += isinstance(event, BatchCommitted)
        if commits == 3:
            ready.set()
            assert labelled.wait(PATIENCE_S)

    def user() -> None:
        assert ready.wait(PATIENCE_S)
        for word in (False, True, None, False):
            report, problems = label_pages(folder, [given(HUB, word)], 5.0)
            results.append((report.running, report.labels, problems))
        labelled.set()

    results: list[tuple[bool, int, list[str]]] = []
    thread = threading.Thread(target=user)
    thread.start()
    with served(SmallWeb(mixed_web())) as server:
        crawl(folder, learning_tree(server, stop={"pages": 20}), listen)
    thread.join()
    assert results == [(True, 1, [])] * 4
    assert not explained_page(folder, HUB).relevant
    assert rows(folder, "SELECT count(*) FROM event WHERE kind = 'PageLabeled'") == [(3,)]
    assert rows(folder, "SELECT count(*) FROM event WHERE kind = 'LabelRemoved'") == [(1,)]
    assert verify(folder) == []


def test_label_of_a_strategy_that_does_not_learn_changes_the_verdict_only(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web(3))) as server:
        crawl(tmp_path / "c", learning_tree(server, strategy="breadth", stop={"pages": 6}))
    report, _ = label_pages(tmp_path / "c", [given(HUB, False)], 5.0)
    assert (report.learns, report.moved) == (False, 0)
    assert not explained_page(tmp_path / "c", HUB).relevant


def test_command_labels_from_arguments_and_files(folder: Path) -> None:
    done = opilio("label", folder, TRAIN, "--relevant")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 label stored, 1 verdict changed" in done.stdout
    assert "queued URLs moved" in done.stdout
    file = folder.parent / "labels.tsv"
    file.write_text(f"# mine\n\n{TRAIN}\tirrelevant\n{BIRD}\trelevant\n")
    facts = json.loads(opilio("label", folder, "--file", file, "--json").stdout)
    assert (facts["schema"], facts["labels"], facts["running"]) == (1, 2, False)
    assert not explained_page(folder, TRAIN).relevant
    assert "1 label removed, 0 verdicts changed" in opilio("label", folder, BIRD, "--undo").stdout


@pytest.mark.parametrize(
    ("url", "result"),
    [
        ("http://birds.example/never.html", "is not in the collection"),
        ("birds", "not a valid http(s) URL"),
        ("queued", "was not fetched (queued)"),
        (BIRD, "has no label to remove"),
    ],
)
def test_label_is_refused_when_there_is_no_such_page(folder: Path, url: str, result: str) -> None:
    if url == "queued":
        url = rows(folder, "SELECT url FROM frontier_url WHERE state = 0 LIMIT 1")[0][0]
    done = opilio("label", folder, url, "--undo" if url == BIRD else "--relevant")
    assert (done.returncode, done.stdout) == (2, "")
    assert result in one_line(done)
    assert rows(folder, "SELECT count(*) FROM label") == [(0,)]


def test_file_is_refused_whole_and_every_bad_line_is_named(folder: Path) -> None:
    file = folder.parent / "labels.tsv"
    file.write_text(f"{BIRD}\trelevant\n{BIRD} relevant\n{BIRD}\tmaybe\nhttp://a.example/\tirrelevant\n")
    done = opilio("label", folder, "--file", file)
    assert done.returncode == 2
    assert [line.count(f"line {n}") for line, n in zip(done.stderr.splitlines(), (2, 3, 4), strict=True)] == [1, 1, 1]
    assert rows(folder, "SELECT count(*) FROM label") == [(0,)]


def test_file_of_another_collection_is_refused_in_a_few_lines(folder: Path) -> None:
    file = folder.parent / "labels.tsv"
    file.write_text("".join(f"http://elsewhere.example/{n}\trelevant\n" for n in range(500)))
    done = opilio("label", folder, "--file", file)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 21)
    assert done.stderr.splitlines()[-1] == f"opilio: and 480 more lines of {file}; nothing was stored"


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ([], "give either a URL"),
        ([BIRD], "give --relevant, --irrelevant, --undo, --tag, --list or --note"),
        ([BIRD, "--relevant", "--irrelevant"], "--relevant and --irrelevant: give only one of them"),
        ([BIRD, "--undo", "--relevant"], "give the URL of one page"),
        (["--undo", "--file", "x"], "give the URL of one page"),
        (["--file", "gone.tsv"], "can't be read"),
        (["--file", "gone.tsv", "--relevant"], "leave out --relevant"),
        ([BIRD, "--relevant", "--file", "x"], "give either a URL"),
    ],
)
def test_label_says_what_is_missing(tmp_path: Path, arguments: list[str], result: str) -> None:
    done = opilio("label", tmp_path, *arguments)
    assert done.returncode == 2
    assert result in one_line(done)


def test_label_wants_a_collection(tmp_path: Path) -> None:
    done = opilio("label", tmp_path, BIRD, "--relevant")
    assert done.returncode == 1
    assert "not a collection" in one_line(done)


def test_copy_is_not_labelled_but_its_original_is_named(tmp_path: Path) -> None:
    web = mixed_web(2)
    web["http://birds.example/birds-1.html"] = web["http://birds.example/birds-0.html"]
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", learning_tree(server))
    copy = rows(tmp_path / "c", "SELECT url FROM page WHERE duplicate_of <> 0")[0][0]
    _, problems = label_pages(tmp_path / "c", [given(copy, True)], 5.0)
    assert "is a copy of http://birds.example/birds-" in problems[0]


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        read_label_file(tmp_path / "gone")


def test_labels_are_read_behind_the_mark_of_an_editor(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b"\xef\xbb\xbfhttp://a.example/\trelevant\r\n")
    assert read_label_file(tmp_path / "l") == (
        [LabelRequest("http://a.example/", True, f"{tmp_path / 'l'} line 1")],
        [],
    )
