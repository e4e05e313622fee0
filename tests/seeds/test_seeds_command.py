"""`opilio topic seeds` and `opilio crawl` without seeds, as a user runs them, against engines on loopback."""

import json
import socket
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks.search_doubles import KEY, SearchDouble, search_double
from checks.small_webs import BIRDS, Done, SmallWeb, grid, one_line, opilio, page, served
from opilio.engine.wiring.seeding import wiki_url
from opilio.topic.setup import resolve_settings

S0_11 = {"alpha": ["u1", "u2", "u3"], "beta": ["u1", "u2", "u4"], "gamma": ["u1", "u5"]}
Run = Callable[..., Done]


@pytest.fixture
def double() -> Iterator[SearchDouble]:
    with search_double() as running:
        for name, paths in S0_11.items():
            running.lists[name] = [f"https://e.example/{path}" for path in paths]
        yield running


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command, with configuration and cache folders of its own."""

    def command(*words: object, **more: str) -> Done:
        folders = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return opilio(*words, cwd=tmp_path, environment={**folders, "TEST_SEARCH_KEY": KEY, **more})

    return command


def configure(
    tmp_path: Path,
    double: SearchDouble,
    *kinds: str,
    each: dict[str, dict[str, object]] | None = None,
    **options: object,
) -> Path:
    """The user's own file of engines; `each` has options of single ones."""
    path = tmp_path / "config" / "opilio" / "engines.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = {kind: {**double.engine(kind), **options, **(each or {}).get(kind, {})} for kind in kinds}
    path.write_text("".join(f"[{name}]\n{_lines(table)}\n" for name, table in tables.items()), encoding="utf-8")
    return path


def _lines(table: dict[str, object]) -> str:
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())


def test_table_shows_who_voted_s0_11(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    configure(tmp_path, double, "searxng")
    done = run("topic", "seeds", "wrens")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(maxsplit=3) for line in done.stdout.splitlines()] == [
        ["1", "3/3", "https://e.example/u1", "alpha, beta, gamma"],
        ["2", "2/3", "https://e.example/u2", "alpha, beta"],
        ["3", "1/3", "https://e.example/u5", "gamma"],
        ["3", "1/3", "https://e.example/u3", "alpha"],
        ["3", "1/3", "https://e.example/u4", "beta"],
    ]


@pytest.mark.parametrize(("rule", "kept"), [("two", 2), ("all", 1)])
def test_rules_of_s1_15_and_s4_12_are_options(
    tmp_path: Path, double: SearchDouble, run: Run, rule: str, kept: int
) -> None:
    configure(tmp_path, double, "searxng")
    done = run("topic", "seeds", "wrens", "--agree", rule, "--json")
    result = json.loads(done.stdout)
    assert (result["schema"], len(result["seeds"]), result["voters"]) == (1, kept, ["alpha", "beta", "gamma"])


def test_engines_that_fail_are_reported_and_the_others_go_on(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    """One answers 429, one is slow, one has a wrong key, one sends broken JSON and one a web page; two answer."""
    double.lists |= {"brave": ["https://e.example/u1"], "kagi": ["https://e.example/u1", "https://e.example/u9"]}
    double.faults |= {"searxng": "429", "mojeek": "slow", "marginalia": "malformed", "mediawiki": "html"}
    double.retry_after = "120"
    each: dict[str, dict[str, object]] = {"mojeek": {"timeout_s": 0.5}}
    kinds = ("brave", "kagi", "searxng", "mojeek", "marginalia", "mediawiki")
    path = configure(tmp_path, double, *kinds, each=each, timeout_s=60.0)
    wrong_key = {**double.engine("kagi"), "key": "env:WRONG_KEY"}
    path.write_text(f"{path.read_text('utf-8')}[wrong]\n{_lines(wrong_key)}\n", encoding="utf-8")
    done = run("topic", "seeds", "wrens", WRONG_KEY="wrong")
    assert done.returncode == 0
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        ["1", "2/2", "https://e.example/u1"],
        ["3", "1/2", "https://e.example/u9"],
    ]
    result = dict(line.split(": ", 1) for line in done.stderr.splitlines())
    assert result.keys() == {"searxng", "mojeek", "wrong", "marginalia", "mediawiki"}
    assert "asks to wait 120 s" in result["searxng"]
    assert "(timeout)" in result["mojeek"]
    assert "(status 401)" in result["wrong"]
    assert "JSON that can't be read" in result["marginalia"]
    assert "web page instead of JSON" in result["mediawiki"]


def test_key_is_in_no_output_and_no_file(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.faults["kagi"] = "429"
    configure(tmp_path, double, "brave", "marginalia", "mojeek", "kagi")
    double.lists["brave"] = double.lists["marginalia"] = ["https://e.example/u1"]
    done = run("topic", "seeds", "wrens", "--json", "--out", "s.txt")
    wrong = run("topic", "seeds", "wrens", "--fresh", TEST_SEARCH_KEY="wrong-secret")
    assert done.returncode == 0
    assert wrong.returncode == 1
    assert KEY not in done.stdout + done.stderr
    assert "wrong-secret" not in wrong.stdout + wrong.stderr
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert not any(KEY.encode() in data or b"wrong-secret" in data for data in kept)


def test_key_that_an_engine_repeats_is_not_stored_with_a_crawl(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["kagi"] = ["http://h0.example/0.html"]
    double.faults |= {"brave": "echo", "mojeek": "echo moved"}
    configure(tmp_path, double, "kagi", "brave", "mojeek")
    with served(SmallWeb(grid(1, 2))) as server:
        done = run(*crawl_words(server.proxy), "--set", "stop.pages=1")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "c" / "crawl.db") as connection:
        result = str(connection.execute("SELECT * FROM event").fetchall())
    connection.close()
    assert "brave: refused the key" in result
    assert KEY not in result + done.stdout + done.stderr
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_engine_is_asked_once_a_day(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    configure(tmp_path, double, "searxng")
    first = run("topic", "seeds", "wrens")
    asked = len(double.log)
    assert run("topic", "seeds", "wrens").stdout == first.stdout
    assert len(double.log) == asked
    run("topic", "seeds", "robins")
    run("topic", "seeds", "wrens", "--fresh")
    assert len(double.log) == 3 * asked


def test_budget_is_the_days_and_not_the_commands(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["brave"] = ["https://e.example/u1"]
    configure(tmp_path, double, "brave", budget=2)
    assert [run("topic", "seeds", topic).returncode for topic in ("wrens", "robins")] == [0, 0]
    third = run("topic", "seeds", "herons")
    assert third.returncode == 1
    assert "the daily budget of 2 requests is used up (budget)" in one_line(third)
    assert len(double.asked("brave")) == 2


def test_engine_that_wants_rest_gets_it_from_the_next_command_too(
    tmp_path: Path, double: SearchDouble, run: Run
) -> None:
    double.faults["brave"], double.retry_after = "429", "3600"
    configure(tmp_path, double, "brave")
    assert "asks to wait 3600 s" in one_line(run("topic", "seeds", "wrens"))
    assert "asks for a pause" in one_line(run("topic", "seeds", "wrens"))
    assert len(double.asked("brave")) == 1


def test_engine_may_be_chosen_by_its_name_or_kind(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["brave"] = ["https://e.example/u1"]
    configure(tmp_path, double, "searxng", "brave")
    assert run("topic", "seeds", "wrens", "--engine", "brave").stdout == "3    1/1  https://e.example/u1  brave\n"
    assert "the environment variable KAGI_API_KEY is not set" in one_line(
        run("topic", "seeds", "wrens", "--engine", "kagi")
    )
    assert "--engine gogle: is neither" in one_line(run("topic", "seeds", "wrens", "--engine", "gogle"))


def test_genres_are_asked_for_one_by_one_s3_02(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.by_query["brave", "wrens blog"] = ["https://blog.example/"]
    double.by_query["brave", "wrens forum discussion"] = ["https://forum.example/"]
    configure(tmp_path, double, "brave")
    done = run("topic", "seeds", "wrens", "--genre", "blogs", "--genre", "discussions", "--json")
    assert [(s["url"], s["genre"]) for s in json.loads(done.stdout)["seeds"]] == [
        ("https://blog.example/", "blogs"),
        ("https://forum.example/", "discussions"),
    ]


def test_genre_must_be_a_known_one_or_of_the_users_file(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["brave"] = ["https://e.example/u1"]
    configure(tmp_path, double, "brave")
    wrong = run("topic", "seeds", "wrens", "--genre", "blog")
    assert wrong.returncode == 2
    assert "--genre blog: unknown (did you mean 'blogs'?); known: web, news" in one_line(wrong)
    assert double.log == []
    (tmp_path / "g.toml").write_text("[recipes]\nenglish = ['oven']\n", encoding="utf-8")
    own = run("topic", "seeds", "wrens", "--genre", "recipes", "--genre", "web", "--set", "topic.genre_file=g.toml")
    assert (own.returncode, len(double.asked("brave"))) == (0, 2)


def test_irrelevant_seeds_are_not_those_of_the_topic_s1_16(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["brave"] = ["https://e.example/u1"]
    double.by_query["brave", "cooking"] = ["https://food.example/", "http://www.e.example/u1/"]
    configure(tmp_path, double, "brave")
    done = run("topic", "seeds", "genetic DNA", "--irrelevant", "--off-topic", "cooking", "--json")
    assert [seed["url"] for seed in json.loads(done.stdout)["seeds"]] == ["https://food.example/"]
    own = run("topic", "seeds", "genetic DNA", "--irrelevant")
    assert own.returncode == 1
    assert len({asked.query["q"] for asked in double.asked("brave")}) > 5, "queries of our own were asked"


def test_seed_file_keeps_priorities(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    configure(tmp_path, double, "searxng")
    run("topic", "seeds", "wrens", "--out", "s.txt")
    assert (tmp_path / "s.txt").read_text(encoding="utf-8").splitlines()[:3] == [
        "# seeds for: wrens",
        "https://e.example/u1\t1\talpha, beta, gamma",
        "https://e.example/u2\t2\talpha, beta",
    ]
    assert "already exists" in one_line(run("topic", "seeds", "wrens", "--out", "s.txt"))


def test_seeds_names_only_what_it_takes_itself(run: Run) -> None:
    done = run("topic", "seeds", "wrens", "--set", "seeds.offline=true")
    lines = done.stderr.strip().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 2)
    assert lines[0].startswith("opilio: no search engine configured: add one")
    assert "no topic: give one as a sentence" in one_line(run("topic", "seeds"))


def test_three_lines_teach_what_to_do_when_no_engine_may_be_asked(tmp_path: Path, run: Run) -> None:
    done = run("crawl", "wrens", "--offline-seeds")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("opilio: no seeds: give at least one with --seed URL")
    assert lines[1].endswith("engines.toml")
    assert lines[2].startswith('mine = { kind = "searxng"')
    assert not (tmp_path / "wrens").exists()


def test_what_the_three_lines_teach_works(double: SearchDouble, run: Run) -> None:
    lines = run("crawl", "wrens", "--offline-seeds").stderr.strip().splitlines()
    path = Path(lines[1].split()[-1])
    path.parent.mkdir(parents=True)
    path.write_text(lines[2].replace("http://127.0.0.1:8888", double.engine("searxng")["url"]), encoding="utf-8")
    assert len(run("topic", "seeds", "wrens").stdout.splitlines()) == 5


def test_topic_alone_is_enough_and_the_default_engine_is_named(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    """Articles of a wiki and the pages that they cite."""
    wiki = double.engine("mediawiki")["url"]
    double.lists |= {"mediawiki": ["0.html"], "extlinks": ["http://h0.example/1.html"]}
    web = {**grid(1, 4), f"{wiki.partition('/mediawiki')[0]}/wiki/0.html": grid(1, 1)["http://h0.example/0.html"]}
    with served(SmallWeb(web)) as server:
        words = ["crawl", "wrens and other small birds", "--into", "c", "--strategy", "breadth"]
        # The wiki's articles are on loopback.
        done = run(*words, *quick(server.proxy), "--allow-private", "--set", f"seeds.wiki={wiki}")
    assert done.returncode == 0, done.stderr
    assert f"no seeds given: searching {wiki}; configure other engines in" in done.stderr
    assert "2 seeds from wikipedia, wikipedia-links" in done.stderr
    assert {asked.query["srsearch"] for asked in double.asked("mediawiki") if "srsearch" in asked.query} == {
        "wrens and other small birds"
    }


def test_default_engine_that_can_not_be_reached_is_reported_with_what_to_do(tmp_path: Path, run: Run) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        wiki = f"http://127.0.0.1:{closed.getsockname()[1]}/w/api.php"
    done = run("crawl", "wrens", "--set", f"seeds.wiki={wiki}")
    assert done.returncode == 1
    assert "no engine found a seed: wikipedia:" in done.stderr
    assert "give seeds with --seed URL or --seeds FILE" in done.stderr
    assert not (tmp_path / "wrens").exists()


@pytest.mark.parametrize(("language", "host"), [("english", "en"), ("de-AT", "de"), ("portuguese", "pt")])
def test_default_engine_speaks_the_language_of_the_topic(language: str, host: str) -> None:
    settings = resolve_settings({"topic": {"name": "wrens", "language": language}})
    assert wiki_url(settings) == f"https://{host}.wikipedia.org/w/api.php"


def quick(proxy: str) -> list[object]:
    settings = ("politeness.delay_s=0", "engine.workers=0", "seeds.queries=0", "engine.connections=1")
    return ["--proxy", proxy, *(word for text in settings for word in ("--set", text))]


def crawl_words(proxy: str) -> list[object]:
    return ["crawl", "wrens and other small birds", "--into", "c", "--strategy", "breadth", *quick(proxy)]


def test_crawl_without_seeds_asks_the_engines_and_begins_with_the_best(
    tmp_path: Path, double: SearchDouble, run: Run
) -> None:
    """Priorities flow into the frontier (S0-E12), and `why` names the engine of a seed."""
    pages = [f"http://h0.example/{n}.html" for n in range(3)]
    double.lists |= {"alpha": [pages[2], pages[1], pages[0]], "beta": [pages[1], pages[0]], "gamma": [pages[0]]}
    configure(tmp_path, double, "searxng")
    with served(SmallWeb(grid(1, 8))) as server:
        done = run(*crawl_words(server.proxy), "--strategy", "best-first", "--set", "stop.pages=3")
        assert done.returncode == 0, done.stderr
        asked = [access.url for access in server.log if not access.url.endswith("robots.txt")]
        assert asked == pages
        again = run("crawl", "--into", "c", "--set", "stop.pages=5")
    assert again.returncode == 0, again.stderr
    assert "3 seeds from alpha, beta, gamma" in done.stderr
    why = json.loads(run("why", "c", pages[1], "--json").stdout)
    assert why["seed"] == {"priority": 2, "sources": "alpha, beta"}
    assert len(double.asked("searxng")) == 3, "two pages of results and one list of engines; resuming asks nobody"


@pytest.mark.parametrize(
    ("strategy", "first"), [("best-first", "small_birds"), ("s0", "timetable"), ("s0-earlier", "timetable")]
)
def test_seeds_of_the_paper_come_by_rank_and_others_by_meaning_too_s0_12(
    tmp_path: Path, double: SearchDouble, run: Run, strategy: str, first: str
) -> None:
    names = ("timetable", "wagons", "small_birds", "locomotives")
    double.lists["brave"] = [f"http://h0.example/{name}" for name in names]
    configure(tmp_path, double, "brave")
    with served(SmallWeb({f"http://h0.example/{name}": page(f"{BIRDS} {name}") for name in names})) as server:
        run(*crawl_words(server.proxy), "--strategy", strategy, "--set", "stop.pages=4")
        asked = [access.target for access in server.log if access.target != "/robots.txt"]
    assert asked[0] == f"/{first}"
    if strategy != "best-first":
        assert asked == [f"/{name}" for name in names]


def test_crawl_ends_before_a_folder_is_made_when_engines_bring_nothing(
    tmp_path: Path, double: SearchDouble, run: Run
) -> None:
    for name in S0_11:
        double.lists[name] = [f"https://{name}.example/"]
    configure(tmp_path, double, "searxng")
    done = run("crawl", "wrens", "--into", "c", "--set", "seeds.agree=all")
    assert done.returncode == 1
    assert 'found nothing on "wrens" that all of them name; --set seeds.agree=any' in one_line(done)
    double.faults["searxng"] = "429"
    double.retry_after = "3600"
    assert "no engine found a seed: searxng: too many requests" in one_line(run("crawl", "robins", "--into", "c"))
    assert not (tmp_path / "c").exists()


def test_irrelevant_seeds_join_a_crawl_when_asked_for(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    double.lists["brave"] = ["http://h0.example/0.html"]
    for topic in ("cooking recipes", "football results", "railway timetable"):
        double.by_query["brave", topic] = ["http://h0.example/5.html", "http://h0.example/6.html"]
    configure(tmp_path, double, "brave")
    with served(SmallWeb(grid(1, 8))) as server:
        done = run(*crawl_words(server.proxy), "--set", "stop.pages=1", "--set", "seeds.irrelevant=1")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "c" / "crawl.db") as connection:
        rows = connection.execute("SELECT url, priority, sources FROM seed ORDER BY url").fetchall()
    connection.close()
    assert rows == [
        ("http://h0.example/0.html", 3, "brave"),
        ("http://h0.example/5.html", 3, "brave (off topic)"),
    ]


def test_agents_with_topics_of_their_own_get_their_own_seeds_s3_02(
    tmp_path: Path, double: SearchDouble, run: Run
) -> None:
    double.by_query["brave", "wrens"] = ["http://h0.example/0.html"]
    double.by_query["brave", "wrens news"] = ["http://h0.example/1.html"]
    double.by_query["brave", "trains"] = ["http://h0.example/2.html", "http://h0.example/3.html"]
    configure(tmp_path, double, "brave")
    agents = (
        "[[agents.each]]\n[[agents.each]]\ntopic = {genres = ['news']}\n[[agents.each]]\ntopic = {name = 'trains'}\n"
    )
    (tmp_path / "c.toml").write_text(f"strategy = 's3-agents'\n[topic]\nname = 'wrens'\n{agents}", encoding="utf-8")
    with served(SmallWeb(grid(1, 8))) as server:
        done = run("crawl", "--config", "c.toml", "--into", "c", *quick(server.proxy))
    assert done.returncode == 0, done.stderr
    result = tomllib.loads((tmp_path / "c" / "crawl.toml").read_text(encoding="utf-8"))
    assert [[url[-6:] for url in one["seeds"]] for one in result["agents"]["each"]] == [
        [],
        ["1.html"],
        ["2.html", "3.html"],
    ]
    assert len(result["seeds"]["urls"]) == 4


def test_doctor_names_the_engines_that_are_configured(tmp_path: Path, double: SearchDouble, run: Run) -> None:
    path = configure(tmp_path, double, "searxng", "brave")
    assert json.loads(run("maintain", "doctor", "--json").stdout)["seed_engines"] == ["searxng", "brave"]
    path.write_text("brave = 1\n", encoding="utf-8")
    done = run("maintain", "doctor")
    assert done.returncode == 1
    assert "'brave' must be a table with a kind" in done.stdout
