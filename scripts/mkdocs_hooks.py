"""Hooks of mkdocs.

- A folder in the navigation (`papers/`) stands for all of its pages.
- Links to files outside docs/ become plain text, because the site does not contain them.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
# Results of experiments are files of the repository, not pages.
SITE_SUFFIXES = (".md", ".png", ".svg", "")


def on_config(config: Any) -> Any:  # noqa: ANN401 a class of mkdocs
    """The configuration with every page of a folder in its navigation."""
    config.nav = _expanded(config.nav)
    return config


def _expanded(entry: Any) -> Any:  # noqa: ANN401 as YAML has it
    if isinstance(entry, list):
        return [_expanded(one) for one in entry]
    if isinstance(entry, dict):
        return {name: _expanded(one) for name, one in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = sorted((DOCS / entry).glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
    return [f"{entry}{page.name}" for page in pages]


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 a class of mkdocs
    """The page with links only to pages and pictures of the site."""
    folder = PurePosixPath(page.file.src_uri).parent
    return _LINK.sub(lambda link: link[0] if is_on_site(link["target"], folder) else link["text"], markdown)


def is_on_site(target: str, folder: PurePosixPath) -> bool:
    """Whether the site has what a link of a page in this folder of docs/ points to."""
    path = target.partition("#")[0]
    if "://" in target or not path:
        return True
    place = (DOCS / folder / path).resolve()
    inside = place.is_relative_to(DOCS) and place.is_file() and place.suffix in SITE_SUFFIXES
    return inside and place.relative_to(DOCS).parts[:-1] in _page_folders()


def _page_folders() -> set[tuple[str, ...]]:
    """Folders below docs/ that are part of the site."""
    return {(), *((name,) for name in ("tutorials", "papers", "lab", "decisions", "screenshots"))}
