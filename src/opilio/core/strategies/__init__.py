"""Strategies by name: TOML files of this package, of plug-in packages, and of the user's config folder.

A package registers a package or folder with `*.toml` files in the group `opilio.strategies`. A file in the user's
folder wins over one of the same name elsewhere.
"""

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType

from platformdirs import user_config_path

from opilio.core.errors import ConfigError
from opilio.core.registry import STRATEGIES, load_plugin, plugin_names
from opilio.core.settings import Tree, read_toml, suggest_name


def user_strategies() -> Path:
    """The folder for strategies of the user's own."""
    return user_config_path("opilio") / "strategies"


def strategy_names() -> list[str]:
    """The names of all strategies, sorted."""
    return sorted(_find_strategies())


def load_strategy(name: str) -> Tree:
    """The settings of a strategy; ConfigError for an unknown name or an invalid file."""
    known = _find_strategies()
    if name not in known:
        hint = suggest_name(name, sorted(known))
        raise ConfigError(f"strategy '{name}': unknown{hint}; known: {', '.join(sorted(known))}")
    file = known[name]
    if isinstance(file, Path):
        return read_toml(file)
    return tomllib.loads(file.read_text(encoding="utf-8"))


def strategy_summaries() -> dict[str, str]:
    """One sentence about each strategy: the first comment line of its file; empty if it has none."""
    first = {name: file.read_text(encoding="utf-8").partition("\n")[0] for name, file in _find_strategies().items()}
    return {name: line.removeprefix("#").strip() if line.startswith("#") else "" for name, line in first.items()}


def _find_strategies() -> dict[str, Traversable]:
    """The file of each strategy."""
    found: dict[str, Traversable] = {}
    # Ours last: a package can't replace them.
    for name in sorted(plugin_names(STRATEGIES), key="opilio".__eq__):
        registered = load_plugin(STRATEGIES, name)
        found |= _toml_files(files(registered) if isinstance(registered, ModuleType) else Path(registered))
    return found | _toml_files(user_strategies())


def _toml_files(folder: Traversable) -> dict[str, Traversable]:
    if not folder.is_dir():
        return {}
    return {file.name.removesuffix(".toml"): file for file in folder.iterdir() if file.name.endswith(".toml")}
