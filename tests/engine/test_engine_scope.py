"""Crawls with a scope, over real sockets: what is fetched, and how `why` explains the rest."""

from pathlib import Path

import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, opilio, page, redirect, rows, served, settings_for, stored, word
from opilio.cli.crawl_run import read_seed_options
from opilio.manage.why import why

ROOT = "http://example.org/"
GERMAN = "Der Zaunkönig ist ein kleiner Vogel, der im Winter nicht in den Süden zieht und im Wald lebt."
WEB = {
    ROOT: page(BIRDS, ["/docs/a", "/tag/b", "http://sub.example.org/", "http://other.example/", "/away", "/de"]),
    f"{ROOT}docs/a": page(f"{BIRDS} {word(1)}", ["/docs/deep"]),
    f"{ROOT}tag/b": page(f"{BIRDS} {word(2)}"),
    f"{ROOT}away": redirect("http://other.example/moved"),
    f"{ROOT}de": page(GERMAN),
    "http://sub.example.org/": page(f"{BIRDS} {word(3)}"),
    "http://other.example/": page(f"{BIRDS} {word(4)}"),
    "http://other.example/moved": page(f"{BIRDS} {word(5)}"),
}


def test_urls_out_of_scope_are_not_fetched_and_recorded_with_the_rule(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        scope = {"allow": ["example.org"], "deny": ["/tag/*"]}
        crawl(tmp_path / "c", settings_for(server, [ROOT], scope=scope))
    assert {entry.host for entry in server.log} == {"example.org", "sub.example.org"}
    assert f"{ROOT}tag/b" not in stored(tmp_path / "c")
    assert why(tmp_path / "c", f"{ROOT}tag/b").reason == "out of scope: scope.deny /tag/*"
    for url in ("http://other.example/", "http://other.example/moved"):
        assert why(tmp_path / "c", url).reason == "out of scope: no rule of --site or --allow (scope.allow) matches"


@pytest.mark.parametrize(
    ("scope", "refused"),
    [({"languages": ["en"]}, "scope de is not in scope.languages"), ({"types": ["text/plain"]}, "scope text/html")],
)
def test_pages_out_of_scope_are_not_stored(tmp_path: Path, scope: dict[str, list[str]], refused: str) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT, f"{ROOT}de"], scope=scope))
    found = rows(tmp_path / "c", "SELECT reason FROM frontier_url WHERE url = ?", f"{ROOT}de")
    assert found[0][0].startswith(refused)
    assert f"{ROOT}de" not in stored(tmp_path / "c")


def test_site_option_stays_on_the_site(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        more = ["--strategy", "breadth", "--proxy", server.proxy, "--set", "politeness.delay_s=0"]
        done = opilio(
            "crawl", "small birds", "--into", "c", "--site", "http://www.example.org", "--seed", ROOT, *more,
            "--deny", "/tag/*", "--max-depth", "1", "--workers", "0", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}docs/a", f"{ROOT}de", "http://sub.example.org/"}
    assert why(tmp_path / "c", f"{ROOT}docs/deep").reason == "more than 1 links from a seed (frontier.max_depth)"


def test_crawl_of_a_site_starts_at_its_home_page_when_there_are_no_seeds() -> None:
    assert read_seed_options([], None, ["example.org", "http://a.example/x", "127.0.0.1:8000", "localhost"]) == [
        "https://example.org/",
        "http://a.example/x",
        "http://127.0.0.1:8000/",
        "http://localhost/",
    ]
    assert read_seed_options(["https://b.example/"], None, ["example.org"]) == ["https://b.example/"]


def test_seeds_without_a_scheme_are_urls(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["a.example/x", "127.0.0.1:8000/", "localhost", "http://b.example/"]
    assert read_seed_options(given, None) == [
        "https://a.example/x",
        "http://127.0.0.1:8000/",
        "http://localhost",
        "http://b.example/",
    ]
    assert "seed 'a.example/x' and 2 more: no scheme given, using https://" in capsys.readouterr().err


def test_changed_scope_applies_to_the_queue_of_a_resumed_crawl(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], stop={"pages": 1}))
        scope = {"allow": ["example.org"], "deny": ["/tag/*"]}
        narrow = settings_for(server, [ROOT], scope=scope, stop={"pages": 0})
        crawl(tmp_path / "c", narrow)
    assert {entry.host for entry in server.log} == {"example.org", "sub.example.org"}
    assert why(tmp_path / "c", f"{ROOT}tag/b").reason == "out of scope: scope.deny /tag/*"
    assert why(tmp_path / "c", "http://other.example/").state == "dropped"
    assert f"{ROOT}docs/a" in stored(tmp_path / "c")
