"""Plug-ins: factories that packages register as entry points, and the options that a factory takes.

Opilio registers its own kinds in the same way, in `pyproject.toml`; a package of a third party needs nothing else. The
keyword-only arguments of a factory are the options of its kind: their annotations are the schema, their defaults the
defaults. Only the factory that a configuration names is imported.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.settings import Tree, describe_validation_error, suggest_name

ASSEMBLIES = "opilio.assemblies"
COMMANDS = "opilio.commands"
COMMITTEE_MEMBERS = "opilio.committee_members"
DOCUMENT_READERS = "opilio.document_readers"
FETCHERS = "opilio.fetchers"
LINK_SCORERS = "opilio.link_scorers"
RANKERS = "opilio.rankers"
SEED_ENGINES = "opilio.seed_engines"
START_STATES = "opilio.start_states"
START_TRAINING = "opilio.start_training"
STRATEGIES = "opilio.strategies"
TOPIC_EXTENSIONS = "opilio.topic_extensions"
# The sections of a configuration that have a kind, with the group that registers their kinds.
SECTION_GROUPS = {
    "judge": "opilio.judges",
    "senses": "opilio.senses",
    "rank": RANKERS,
    "boost": "opilio.boosts",
    "expansion": "opilio.expansions",
    "order": "opilio.orders",
}
DEFAULT_KINDS = {
    "judge": "cosine",
    "senses": "any",
    "rank": "linkscore",
    "boost": "none",
    "expansion": "none",
    "order": "best-first",
}

Factory = Callable[..., Any]
EntryPoints = Mapping[str, Mapping[str, EntryPoint]]  # group -> name -> entry point


def plugin_names(group: str) -> list[str]:
    """The names registered in a group, sorted."""
    return sorted({**_installed().get(group, {}), **_builtin().get(group, {})})


def has_plugin(group: str, name: str) -> bool:
    """Whether a group has this name. Scans the installed packages only where Opilio itself has no such name."""
    return _find(group, name) is not None


def load_plugin(group: str, name: str, option: str = "") -> Any:  # noqa: ANN401 - each group has a type of its own
    """The object that a name stands for, imported now. `option` is the setting that an error message names."""
    found = _find(group, name)
    subject = f"{option} = '{name}'" if option else f"{group} '{name}'"
    if found is None:
        known = plugin_names(group)
        raise ConfigError(f"{subject}: unknown{suggest_name(name, known)}; known: {', '.join(known)}")
    try:
        return _load(found)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{subject}: the plug-in {found.value} can't be imported: {error}") from error


def factory_options(factory: Factory) -> dict[str, inspect.Parameter]:
    """The options of what a factory makes: its keyword-only arguments."""
    found = inspect.signature(factory, eval_str=True).parameters.values()
    return {p.name: p for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def section_kinds(section: str) -> list[str]:
    """The kinds that a section can have."""
    return plugin_names(SECTION_GROUPS[section])


def kind_options(section: str, kind: str) -> dict[str, inspect.Parameter]:
    """The options of a kind, by name."""
    return factory_options(load_plugin(SECTION_GROUPS[section], kind, f"{section}.kind"))


def complete_section(section: str, given: Tree) -> Tree:
    """A section with its kind and every option written out; ConfigError for an unknown or invalid option."""
    return complete_options(SECTION_GROUPS[section], section, {"kind": DEFAULT_KINDS[section], **given})


def complete_options(group: str, section: str, given: Tree) -> Tree:
    """The same for a table whose `kind` is a name of any group."""
    kind = str(given["kind"])
    options = factory_options(load_plugin(group, kind, f"{section}.kind"))
    for name in given:
        if name != "kind" and name not in options:
            hint = suggest_name(name, list(options)) or f"; it has {', '.join(options) or 'no options'}"
            raise ConfigError(f"unknown key '{section}.{name}' for kind '{kind}'{hint}")
    result: Tree = {"kind": kind}
    for name, option in options.items():
        try:
            result[name] = msgspec.convert(given.get(name, option.default), option.annotation, strict=True)
        except msgspec.ValidationError as error:
            if get_origin(option.annotation) is Literal:
                choices = ", ".join(map(str, get_args(option.annotation)))
                raise ConfigError(f"{section}.{name} = {given[name]!r}: unknown; choose one of {choices}") from error
            raise ConfigError(f"{section}.{name}: {describe_validation_error(error)}") from error
    return result


def build_component(section: str, tree: Tree, *arguments: object) -> Any:  # noqa: ANN401 - each section has a protocol
    """The component that a completed section names."""
    options = {name: value for name, value in tree.items() if name != "kind"}
    return load_plugin(SECTION_GROUPS[section], tree["kind"], f"{section}.kind")(*arguments, **options)


def _find(group: str, name: str) -> EntryPoint | None:
    return _builtin().get(group, {}).get(name) or _installed().get(group, {}).get(name)


@cache
def _load(entry: EntryPoint) -> Any:  # noqa: ANN401 - each group has a type of its own
    return entry.load()


@cache
def _builtin() -> EntryPoints:
    """Opilio's own entry points, without a scan of all installed packages (20 ms): all that workers need."""
    project = Path(__file__).parents[3] / "pyproject.toml"
    # A checkout: what is installed may be older than the source.
    if project.is_file():
        declared = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("entry-points", {})
        return {
            group: {name: EntryPoint(name, value, group) for name, value in entries.items()}
            for group, entries in declared.items()
        }
    try:
        return _by_group(distribution("opilio").entry_points)
    except PackageNotFoundError as error:
        raise ConfigError("opilio is not installed as a package; install it with 'pip install opilio'") from error


@cache
def _installed() -> EntryPoints:
    """The entry points of all installed packages."""
    found = entry_points()
    ours = (group for group in found.groups if group.startswith("opilio."))
    return _by_group(entry for group in ours for entry in found.select(group=group))


def _by_group(entries: Iterable[EntryPoint]) -> EntryPoints:
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entries:
        found.setdefault(entry.group, {}).setdefault(entry.name, entry)
    return found
