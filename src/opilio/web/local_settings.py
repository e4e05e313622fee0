"""Which settings the new-crawl form may not change, unless the server was started with `--allow-local`.

A visitor of the server is not its user. These settings read files of the user, send their words or API keys elsewhere,
or reach the network that the server is in.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opilio.core.errors import UsageError
from opilio.core.registry import DEFAULT_KINDS, kind_options
from opilio.core.settings import KIND_SECTIONS, Settings, Tree

# An engine's options name files, servers that may have private addresses, and keys that are sent to them.
# A browser runs scripts of sites on the server, and its path names a program to start.
LOCAL_KEYS = {
    "browser": ("on", "path"),
    "fetch": ("allow_private", "archives", "credentials", "proxy", "resolve", "signature_key"),
    "seeds": ("engines", "proxy", "wiki"),
    "topic": ("genre_file", "lexicon_file"),
}
EXAMPLE_KEYS = ("examples", "counterexamples")


def reject_local_settings(tree: Tree, settings: Settings) -> None:
    """UsageError if the form's tree sets one of them; `settings` are the valid settings made from it."""
    for name in _local_settings(tree, settings):
        raise UsageError(
            f"more settings: {name}: not allowed in this form; use 'opilio crawl', or 'opilio serve --allow-local'"
        )


def _local_settings(tree: Tree, settings: Settings) -> Iterator[str]:
    for section, keys in LOCAL_KEYS.items():
        given = tree.get(section, {})
        yield from (f"{section}.{key}" for key in keys if given.get(key))
    yield from (f"topic.{key}" for key in EXAMPLE_KEYS if _names_file(tree.get("topic", {}), key))
    for agent in settings.agents.each:
        keys = (*LOCAL_KEYS["topic"], *(key for key in EXAMPLE_KEYS if _names_file(agent.topic, key)))
        yield from (f"agents.each.topic.{key}" for key in keys if agent.topic.get(key))
    for section in KIND_SECTIONS:
        yield from (f"{section}.{key}" for key in _file_options(section, tree.get(section, {}), settings))


def _names_file(topic: Tree, key: str) -> bool:
    """Whether one of the example pages is a file; others are URLs, which the fetcher checks."""
    places: Any = topic.get(key, [])
    return not isinstance(places, list) or any("://" not in str(place) for place in places)


def _file_options(section: str, given: Tree, settings: Settings) -> list[str]:
    """The options that are set and name a file: those that take any text. Other options have a fixed set of values."""
    kind = str(getattr(settings, section).get("kind", DEFAULT_KINDS[section]))
    options = kind_options(section, kind)
    return [key for key, value in given.items() if value and key in options and options[key].annotation in (str, Path)]
