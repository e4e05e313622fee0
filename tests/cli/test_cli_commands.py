"""The commands as the user runs them: data on stdout, messages on stderr, exit codes, JSON with its schema."""

import csv
import io
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.indexed import BIRD_PAGES, store
from checks.small_webs import COMMAND, SmallWeb, crawl, flags, grid, opilio, page, plain, served, settings_for
from opilio import __version__
from opilio.cli.crawl_run import merge_options
from opilio.core.strategies import strategy_names

SEED = "http://h0.example/0.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("commands") / "birds"
    with served(SmallWeb(grid(2, 10))) as server:
        done = opilio("crawl", *flags(settings_for(server, [SEED])), "--pages", 15, "--into", into)
    assert done.returncode == 0, done
    assert "15 pages" in done.stdout
    assert "stopped: page limit reached (15 pages); --pages N with a larger N continues\n" in done.stdout
    assert done.stderr == ""
    return into


def test_crawl_resumes_when_run_again(tmp_path: Path) -> None:
    with served(SmallWeb(grid(2, 10))) as server:
        arguments = ["crawl", *flags(settings_for(server, [SEED])), "--into", tmp_path / "c", "--json"]
        first = json.loads(opilio(*arguments, "--pages", 5).stdout)
        second = json.loads(opilio(*arguments, "--pages", 0).stdout)
    assert (first["schema"], first["pages"], second["pages"]) == (1, 5, 20)
    assert second["stop_reason"] == "nothing left to fetch"
    assert (second["state"], second["strategy"]) == ("stopped", "breadth")


def test_export_reports_how_many_pages_it_left_out(tmp_path: Path) -> None:
    done = opilio("export", store(tmp_path / "c", BIRD_PAGES), "--out", tmp_path / "x.jsonl")
    hidden = "1 that ask not to be indexed (--include-noindex)"
    assert done.stderr == f"5 pages written to {tmp_path / 'x.jsonl'}; without 1 duplicate and {hidden}\n"
    done = opilio("export", tmp_path / "c", "--include-noindex", "--out", tmp_path / "all.jsonl")
    assert done.stderr == f"6 pages written to {tmp_path / 'all.jsonl'}; without 1 duplicate\n"


def test_options_of_a_kind_are_kept_in_whatever_order_they_are_set() -> None:
    wiki = {"kind": "mediawiki", "url": "http://wiki.example/api.php"}
    for names in (("kind", "url"), ("url", "kind")):
        assigned = [f"seeds.engines.wiki.{name}={wiki[name]}" for name in names]
        assert merge_options({}, assigned, None) == {"seeds": {"engines": {"wiki": wiki}}}


def test_crawl_takes_everything_from_a_file(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 4))) as server:
        text = f"strategy = 'breadth'\n[topic]\nname = 'Small wrens!'\n[seeds]\nurls = ['{SEED}']\n"
        text += f"[fetch]\nproxy = '{server.proxy}'\n[politeness]\ndelay_s = 0\n[engine]\nworkers = 0\n"
        (tmp_path / "birds.toml").write_text(text)
        done = opilio("crawl", "--config", "birds.toml", cwd=tmp_path)
    assert done.returncode == 0, done
    assert (tmp_path / "small-wrens" / "crawl.db").exists()
    whole = (tmp_path / "small-wrens" / "crawl.toml").read_text()
    assert "patience_s" in whole  # every default written out


def test_seeds_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text(f"# mine\n\n{SEED}\nhttp://h0.example/1.html\n")
    with served(SmallWeb(grid(1, 4))) as server:
        more = flags(settings_for(server, []))
        done = opilio("crawl", *more, "--seeds", tmp_path / "seeds.txt", "--into", tmp_path / "c", "--json", "-q")
    assert json.loads(done.stdout)["pages"] == 4


def test_status_is_text_or_json(folder: Path) -> None:
    text = opilio("status", folder)
    assert (text.returncode, text.stderr) == (0, "")
    assert "page limit reached" in text.stdout
    facts = json.loads(opilio("status", folder, "--json").stdout)
    assert facts["schema"] == 1
    assert {
        "state",
        "stop_reason",
        "strategy",
        "pages",
        "relevant",
        "harvest",
        "queued",
        "failed",
        "dropped",
        "hosts",
    } <= set(facts)


def test_why_is_text_or_json_and_reports_when_it_knows_nothing(folder: Path) -> None:
    facts = json.loads(opilio("why", folder, SEED, "--json").stdout)
    assert (facts["schema"], facts["found"], facts["state"]) == (1, True, "done")
    text = opilio("why", folder, "http://h0.example/1.html")
    assert text.returncode == 0
    assert "found on http://h0.example/0.html" in text.stdout
    assert "shortest known path from a seed:" in text.stdout
    unknown = opilio("why", folder, "http://h0.example/never")
    assert (unknown.returncode, "never seen" in unknown.stdout) == (1, True)


def test_text_of_strangers_reaches_no_terminal_as_a_command(tmp_path: Path) -> None:
    title = "wren\x1b]0;owned\x07\x1b[2J bücher – 鳥"
    with served(SmallWeb({SEED: page(title=title)})) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    shown = opilio("why", tmp_path / "c", SEED).stdout
    assert (": wren]0;owned[2J bücher – 鳥\n" in shown, "\x1b" in shown) == (True, False)
    # A terminal of another encoding gets what it has letters for, a program the whole.
    narrow = {**plain(), "PYTHONIOENCODING": "latin-1"}
    command = [*COMMAND, "why", str(tmp_path / "c"), SEED]
    assert b"b\xfccher ? ?\n" in subprocess.run(command, capture_output=True, env=narrow, check=True).stdout
    result = subprocess.run([*command, "--json"], capture_output=True, env=narrow, check=True).stdout
    assert json.loads(result)["page"]["title"] == title


def test_verify_is_text_or_json(folder: Path) -> None:
    text = opilio("maintain", "verify", folder)
    assert (text.returncode, text.stdout) == (0, f"{folder}: no problems found\n")
    facts = json.loads(opilio("maintain", "verify", folder, "--json").stdout)
    assert facts == {"schema": 1, "ok": True, "problems": [], "repaired": [], "accepted": [], "fetched_again": 0}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "warc"])
def test_export_writes_the_same_to_a_file_and_to_stdout(folder: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"pages.{form}"
    done = opilio("export", folder, "--format", form, "--out", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"15 pages written to {out}\n"
    piped = subprocess.run(
        [*COMMAND, "export", str(folder), "--format", form, "--out", "-"], capture_output=True, env=plain(), check=True
    )
    assert piped.stdout == out.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_export_takes_the_format_from_the_name_of_the_file(folder: Path, tmp_path: Path) -> None:
    assert opilio("export", folder, "--out", tmp_path / "pages.csv").returncode == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "pages.csv").read_text())))
    assert len(rows) == 15
    assert all(datetime.fromisoformat(row["fetched_at"]).tzinfo == UTC for row in rows)
    done = opilio("export", folder, "--out", tmp_path / "pages.xlsx")
    assert (done.returncode, "pages.xlsx: give a format or a name that ends in" in done.stderr) == (2, True), done
    assert [path.name for path in tmp_path.iterdir()] == ["pages.csv"]


def test_query_without_quotes_is_explained(folder: Path) -> None:
    done = opilio("search", folder, "wren", "song")
    assert done.returncode == 2
    assert done.stderr == "opilio: wren: not a collection; put quotes around a query of several words\n"


@pytest.mark.parametrize("command", ["export", "status"])
def test_command_ends_quietly_when_the_reader_stops(folder: Path, command: str) -> None:
    with subprocess.Popen(
        [*COMMAND, command, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plain()
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() in (0, 1)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_doctor_reports_what_is_here(tmp_path: Path) -> None:
    facts = json.loads(opilio("maintain", "doctor", "--json", cwd=tmp_path).stdout)
    assert (facts["schema"], facts["opilio"], facts["strategies"]) == (1, __version__, strategy_names())
    done = opilio("maintain", "doctor", cwd=tmp_path)
    assert done.returncode == (1 if facts["problems"] else 0)
    assert "libcurl" in done.stdout


def test_help_cuts_no_example_where_the_terminal_is_narrow() -> None:
    done = subprocess.run(
        [*COMMAND, "crawl", "-h"], env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=True
    )
    assert "http://host:8080" in done.stdout
    assert "stop.pages=99" in done.stdout


def test_one_page_is_not_reported_as_several(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 1))) as server:
        arguments = ["crawl", *flags(settings_for(server, [SEED])), "--into", tmp_path / "c"]
        assert "c: 1 page, " in opilio(*arguments).stdout


def test_version_is_reported() -> None:
    assert opilio("--version").stdout == f"opilio {__version__}\n"
