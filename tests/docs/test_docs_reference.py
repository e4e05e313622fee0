"""The reference pages name everything there is, with the defaults the code has."""

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from opilio import dedup as seen
from opilio.cli.commands import app
from opilio.core import events
from opilio.core.registry import (
    DEFAULT_KINDS,
    SECTION_GROUPS,
    SEED_ENGINES,
    factory_options,
    kind_options,
    load_plugin,
    plugin_names,
)
from opilio.core.settings import Settings
from opilio.core.strategies import load_strategy, strategy_names
from opilio.frontier.schema import TABLES_SQL as FRONTIER_TABLES
from opilio.manage.export import EXPORT_COLUMNS
from opilio.manage.results import Status
from opilio.seeds.api_client import RequestLimits
from opilio.store.schema import TABLES as STORE_TABLES
from opilio.testing.conformance import check_ranker

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z_.]+)` \| `(.*?)` \| .+ \|$", re.MULTILINE)


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _written(value: object) -> str:
    """A default as TOML writes it."""
    if isinstance(value, bool | str | list | tuple):
        return json.dumps(value)
    return "{}" if value == {} else repr(value)


def _keys() -> list[tuple[str, str]]:
    found = [("strategy", _written(Settings().strategy))]
    for field in msgspec.structs.fields(Settings):
        section = getattr(Settings(), field.name)
        if isinstance(section, msgspec.Struct):
            values = msgspec.structs.asdict(section)
            found += [(f"{field.name}.{name}", _written(value)) for name, value in values.items()]
    return found


KINDS = [(section, kind) for section, group in SECTION_GROUPS.items() for kind in plugin_names(group)]


@pytest.mark.parametrize(("key", "default"), _keys())
def test_setting_is_documented_with_its_default(key: str, default: str) -> None:
    general = _page("configuration.md").partition("## Sections with a kind")[0]
    result = dict(ROW.findall(general)).get(key)
    assert result == default, f"docs/configuration.md wants the row | `{key}` | `{default}` | meaning |"


@pytest.mark.parametrize("name", strategy_names())
def test_strategy_is_named_on_the_first_page(name: str) -> None:
    assert f"`{name}`" in (DOCS.parent / "README.md").read_text(encoding="utf-8").partition("## Strategies")[2]


def test_configuration_names_no_setting_that_is_gone() -> None:
    general = _page("configuration.md").partition("## Sections with a kind")[0]
    assert {key for key, _ in ROW.findall(general)} - {key for key, _ in _keys()} == set()


@pytest.mark.parametrize(("section", "kind"), KINDS)
def test_kind_is_documented_with_its_options(section: str, kind: str) -> None:
    heading = f'#### `{section}.kind = "{kind}"`'
    _, found, rest = _page("configuration.md").partition(heading)
    assert found, f"docs/configuration.md lacks the heading {heading}"
    result = dict(ROW.findall(re.split(r"^#{2,4} ", rest, flags=re.MULTILINE)[0]))
    assert result == {f"{section}.{name}": _written(o.default) for name, o in kind_options(section, kind).items()}


@pytest.mark.parametrize(("section", "kind"), DEFAULT_KINDS.items())
def test_default_kind_is_documented(section: str, kind: str) -> None:
    line = f"### `[{section}]`\n\nDefault kind: `{kind}`."
    assert line in _page("configuration.md"), f"docs/configuration.md lacks {line}"


@pytest.mark.parametrize("kind", plugin_names(SEED_ENGINES))
def test_engine_is_documented_with_its_options(kind: str) -> None:
    _, found, rest = _page("configuration.md").partition(f'### `kind = "{kind}"`')
    assert found, f"docs/configuration.md lacks the engine {kind}"
    result = dict(ROW.findall(re.split(r"^#{2,4} ", rest, flags=re.MULTILINE)[0]))
    assert result == {name: _written(o.default) for name, o in factory_options(load_plugin(SEED_ENGINES, kind)).items()}


def test_terms_of_engines_are_documented() -> None:
    result = dict(ROW.findall(_page("configuration.md").partition("## `[seeds.engines.NAME]`")[2]))
    terms = msgspec.structs.asdict(RequestLimits())
    assert {name: result.get(name) for name in terms} == {name: _written(value) for name, value in terms.items()}


@pytest.mark.parametrize("name", strategy_names())
def test_strategy_is_documented_with_a_source(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|.*$", _page("strategies.md"), re.MULTILINE)
    assert row, f"docs/strategies.md lacks a row for {name}"
    assert re.search(r"\(S\d-\d+|ours|arXiv:", row[0])
    kinds = [
        load_strategy(name).get(s, {}).get("kind", DEFAULT_KINDS[s]) for s in ("judge", "rank", "expansion", "order")
    ]
    assert [cell.strip() for cell in row[0].split("|")[2:6]] == kinds


EVENTS = [kind for _, kind in inspect.getmembers(events, inspect.isclass) if issubclass(kind, events.Event)]


@pytest.mark.parametrize("kind", [kind for kind in EVENTS if kind is not events.Event])
def test_event_is_documented_with_its_fields(kind: type[events.Event]) -> None:
    row = re.search(rf"^\| `{kind.__name__}` \|.*$", _page("events.md"), re.MULTILINE)
    assert row, f"docs/events.md lacks a row for {kind.__name__}"
    fields = [field.name for field in msgspec.structs.fields(kind) if field.name != "at"]
    assert [name for name in fields if f"`{name}`" not in row[0]] == []


def _commands(group: Any, name: str) -> list[tuple[str, Any]]:
    """Every command with its full name; groups are gone into."""
    inner = getattr(group, "commands", None)
    if inner is None:
        return [(name, group)]
    return [found for word in sorted(inner) for found in _commands(inner[word], f"{name} {word}")]


def _all_commands() -> list[tuple[str, Any]]:
    return _commands(get_command(app), "opilio")


def _section(name: str) -> str:
    found = re.search(rf"^## `{name}\b[^\n]*\n(.*?)(?=^## |\Z)", _page("commands.md"), re.MULTILINE | re.DOTALL)
    assert found, f"docs/commands.md lacks a section for {name}"
    return found[1]


@pytest.mark.parametrize(("name", "command"), _all_commands(), ids=lambda x: x if isinstance(x, str) else "")
def test_command_is_documented_with_its_options(name: str, command: Any) -> None:
    section = _section(name)
    options = [text for p in command.params for text in (*p.opts, *p.secondary_opts) if text.startswith("-")]
    assert [text for text in options if f"`{text}`" not in section and text != "--help"] == []


def test_commands_page_names_no_command_that_is_gone() -> None:
    result = re.findall(r"^## `(opilio [a-z ]*[a-z])\b", _page("commands.md"), re.MULTILINE)
    assert sorted(result) == sorted(name for name, _ in _all_commands())


def test_table_is_documented() -> None:
    made = " ".join((STORE_TABLES, FRONTIER_TABLES, inspect.getsource(seen)))
    names = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", made))
    assert [name for name in sorted(names) if f"`{name}`" not in _page("files.md")] == []


SOURCE = Path(__file__).parents[2] / "src" / "opilio"


def _failure_kinds() -> list[str]:
    """Every kind of failure that the code can record."""
    named = (re.findall(r'Failure\("([a-z-]+)"', path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    mapped = re.findall(r'\("([a-z-]+)", (?:True|False)\)', (SOURCE / "fetch" / "http.py").read_text(encoding="utf-8"))
    return sorted({kind for kinds in named for kind in kinds} | set(mapped))


@pytest.mark.parametrize("kind", _failure_kinds())
def test_failure_is_documented(kind: str) -> None:
    documented = _page("commands.md").partition("## Failures of the web")[2]
    assert f"`{kind}`" in documented, f"docs/commands.md lacks the failure {kind}"


def test_fields_of_status_are_documented() -> None:
    fields = [field.name for field in msgspec.structs.fields(Status)]
    section = _section("opilio status")
    assert "pages" in fields
    assert [name for name in fields if f"`{name}`" not in section] == []


def test_columns_of_export_are_documented() -> None:
    section = _section("opilio export")
    assert [name for name in EXPORT_COLUMNS if f"`{name}`" not in section] == []


def test_ranker_of_the_strategies_page_passes_the_checks() -> None:
    indented = re.search(r"^ +```python\n(.*?)^ +```$", _page("strategies.md"), re.MULTILINE | re.DOTALL)
    assert indented
    names: dict[str, Any] = {}
    exec(textwrap.dedent(indented[1]), names)
    check_ranker(names["ShallowRanker"])
