"""Starting a command: few imports, old names, plug-ins, completion, signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from checks.small_webs import COMMAND, one_line, opilio, plain
from opilio.cli.commands import ALIASES, COMMANDS, CommandEntry, Entries, app
from opilio.cli.options import complete_collections, complete_engines, complete_formats, complete_strategies

HEAVY = ("numpy", "tantivy", "starlette", "opilio.engine", "opilio.search", "opilio.web")
SHOW_IMPORTS = """
import sys
from opilio.cli.main import main
try:
    main()
except SystemExit:
    sys.stderr.write("\\n".join(sys.modules))
"""


def entries(table: Entries, name: str = "") -> list[tuple[str, CommandEntry]]:
    found: list[tuple[str, CommandEntry]] = []
    for word, entry in table.items():
        path = f"{name} {word}".strip()
        found += [(path, entry)] if isinstance(entry, CommandEntry) else entries(entry.commands, path)
    return found


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["crawl", "--help"], ["search", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    command = [sys.executable, "-c", SHOW_IMPORTS, *words]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    assert "opilio.cli.main" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_search_does_not_import_the_crawl() -> None:
    code = "import sys, opilio.search.searcher, opilio.cli.text_output; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(("opilio.engine", "opilio.methods"))] == []


def test_top_level_has_at_most_twelve_commands() -> None:
    assert len(COMMANDS) <= 12


@pytest.mark.parametrize(
    ("name", "entry"), entries(COMMANDS), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_line_is_the_first_line_of_the_command(name: str, entry: CommandEntry) -> None:
    command = get_command(app)
    for word in name.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    assert (command.help or "").splitlines()[0] == entry.help


@pytest.mark.parametrize("name", [name for name, _ in entries(COMMANDS)])
def test_help_fits_80_columns_and_names_no_type_of_python(name: str) -> None:
    command = get_command(app)
    for word in name.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    text = command.get_help(command.make_context(name, [], resilient_parsing=True, terminal_width=80))
    usage, _, rest = text.partition("\n")
    assert "{" not in usage and "[[" not in usage
    described = rest.partition("Examples:")[0]
    assert [line for line in described.splitlines() if len(line) > 80] == []
    assert [part for part in ("<str", "<path", "<list") if part in described.lower()] == []


def test_usage_names_arguments_as_the_documentation_does() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    usage = opilio("search", "--help").stdout.splitlines()[0]
    assert usage == "Usage: opilio search [OPTIONS] DIR... QUERY"
    assert "## `opilio search DIR... QUERY`" in documented


@pytest.mark.parametrize(("old", "new"), ALIASES.items(), ids=" ".join)
def test_old_name_works_and_names_the_new_one(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    done = opilio(*old, "--help")
    assert done.returncode == 0, done
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == f"opilio: 'opilio {' '.join(old)}' is now 'opilio {' '.join(new)}'\n"


def test_unknown_command_is_answered_with_a_similar_name() -> None:
    assert "Did you mean 'crawl'?" in one_line(opilio("craw"))


def test_topic_without_quotes_is_answered_with_quotes(tmp_path: Path) -> None:
    done = opilio("crawl", "birds", "of", "prey", "--pages", 5, cwd=tmp_path)
    assert done.returncode == 2
    assert 'opilio crawl "birds of prey"' in one_line(done)


def test_experiments_are_listed_when_none_is_given() -> None:
    done = opilio("lab", "run")
    assert (done.returncode, "compare" in one_line(done)) == (2, True)


def test_wrong_line_of_a_seed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("https://a.example/\nbirds\n", encoding="utf-8")
    done = opilio("crawl", "wrens", "--seeds", "seeds.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "--seeds seeds.txt, line 2: 'birds': not a valid http(s) URL" in one_line(done)


def test_seed_without_a_scheme_is_https(tmp_path: Path) -> None:
    words = ("crawl", "wrens", "--seed", "a.example/wren", "--proxy", "http://127.0.0.1:9", "--minutes", "0.001")
    done = opilio(*words, "--into", "c", cwd=tmp_path)
    assert "seed 'a.example/wren': no scheme given, using https://" in done.stderr
    assert "https://a.example/wren" in (tmp_path / "c" / "crawl.toml").read_text(encoding="utf-8")


def test_values_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("birds", "work/bats", "other"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("birds", "work/bats"):
        (tmp_path / folder / "crawl.db").touch()
    assert complete_collections("") == ["birds", "work/"]
    assert complete_collections("work/") == ["work/bats"]
    assert complete_strategies("brea") == ["breadth"]
    assert complete_formats("js") == ["jsonl"]
    assert "brave" in complete_engines("br")


def test_interrupt_during_the_imports_ends_with_130(tmp_path: Path) -> None:
    """The process sends the signal itself, at the first import of the engine."""
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'opilio.engine':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n",
        encoding="utf-8",
    )
    environment = {**plain(), "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [*COMMAND, "crawl", "wrens", "--seed", "https://a.example/", "--into", str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (130, "opilio: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before
