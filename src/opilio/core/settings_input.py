"""How users write settings: TOML files and `--set`, checked one by one and merged.

Later sources win: defaults, strategy file, user's file, flags and `--set`. An unknown key is an error that suggests the
nearest known one.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.files import read_text
from opilio.core.scope import UrlScope
from opilio.core.settings import PolitenessSettings, Settings, Tree


def convert_settings(tree: Tree, source: str) -> Settings:
    """Convert a tree, complete or partial, to settings; errors name the source."""
    _reject_unknown(tree, Settings, source)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {describe_validation_error(error)}") from error
    UrlScope(settings.scope)  # checks the rules
    _check_proxy(settings.fetch.proxy, source)
    _check_user_agent(settings.politeness, source)
    return settings


_TOML_TYPE_NAMES = {"object": "table", "str": "string", "int": "whole number", "float": "number"}
_TOML_TYPE_NAMES |= {"bool": "true or false", "array": 'list such as ["one", "two"]'}


def describe_validation_error(error: msgspec.ValidationError) -> str:
    """What does not fit, the key first, in the words of TOML.

    >>> describe_validation_error(msgspec.ValidationError("Expected `float`, got `str` - at `$.politeness.delay_s`"))
    'politeness.delay_s: expected number, got string'
    """
    what, _, at = str(error).partition(" - at ")
    named = re.sub(r"\w+", lambda m: _TOML_TYPE_NAMES.get(m[0], m[0]), what[0].lower() + what[1:].replace("`", ""))
    key = at.strip("`").removeprefix("$.")
    return f"{key}: {named}" if key else named


def _check_proxy(proxy: str, source: str) -> None:
    """A proxy that can't be one would fail every fetch, one by one."""
    if proxy and not re.fullmatch(r"(?i)(https?|socks(4a?|5h?))://[^/\s]+/?", proxy):
        raise ConfigError(
            f"{source}: fetch.proxy '{proxy}': not a valid proxy URL; include the scheme, for example http://127.0.0.1:8080"
        )


def _check_user_agent(polite: PolitenessSettings, source: str) -> None:
    """Check the User-Agent: sites read it, and robots.txt files name its product token (RFC 9309, 2.2.1)."""
    if not re.fullmatch(r"[A-Za-z_-]+", polite.agent):
        raise ConfigError(f"{source}: politeness.agent '{polite.agent}': must contain only letters, - and _ (RFC 9309)")
    if not (polite.contact.isascii() and polite.contact.isprintable()):
        raise ConfigError(f"{source}: politeness.contact {polite.contact!r}: must be one line of ASCII characters")


def validate_tree(tree: Tree, source: str) -> Tree:
    """The tree, checked by itself so that an error names its source."""
    convert_settings(tree, source)
    return tree


def read_settings(path: Path) -> Tree:
    """Read the user's settings file. It is checked before merging, so that errors name the file."""
    tree = read_toml(path)
    convert_settings(tree, str(path))
    return tree


def read_toml(path: Path) -> Tree:
    """Read a TOML file as a tree."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def merge_trees(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Merge `over` into `base`, section by section; a section with another `kind` replaces the old one."""
    result: Tree = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            changed_kind = "kind" in value and value["kind"] != old.get("kind")
            result[key] = dict(value) if changed_kind else merge_trees(old, value)
        else:
            result[key] = value
    return result


def parse_setting(text: str) -> Tree:
    """The tree of one `--set`, checked by itself so that errors name the option."""
    tree = parse_assignment(text)
    convert_settings(tree, f"--set {text}")
    return tree


def parse_assignment(text: str, option: str = "--set", form: str = "section.key=value, such as stop.pages=99") -> Tree:
    """The tree of an assignment such as `politeness.delay_s=0`."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"{option} {text}: must look like {form}")
    tree: Tree | Any = _parse_value(value.strip())
    for part in reversed(path.strip().split(".")):
        tree = {part: tree}
    return dict(tree)


def _parse_value(text: str) -> object:
    """Parse a TOML value; other text is a string, so that quotes can be omitted on the command line."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def suggest_name(word: str, known: list[str]) -> str:
    """A hint such as ` (did you mean 'delay_s'?)`, or an empty string."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


@cache
def _field_types(schema: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(schema)}


def _reject_unknown(tree: Mapping[str, Any], schema: type[msgspec.Struct], source: str, path: str = "") -> None:
    types = _field_types(schema)
    for key, value in tree.items():
        if key not in types:
            raise ConfigError(f"{source}: unknown key '{path}{key}'{suggest_name(key, list(types))}")
        inner = types[key]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(value, Mapping):
            _reject_unknown(value, inner, source, f"{path}{key}.")
