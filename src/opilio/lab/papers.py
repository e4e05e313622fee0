"""The tables of the papers, as data."""

import tomllib
from importlib.resources import files

import msgspec

from opilio.model.errors import WebError


class PaperTable(msgspec.Struct, frozen=True):
    """One table: what each strategy reached after given numbers of pages."""

    id: str
    caption: str
    at: tuple[int, ...]
    values: dict[str, tuple[float, ...]]


class _File(msgspec.Struct):
    table: tuple[PaperTable, ...]


def paper_tables() -> dict[str, PaperTable]:
    """Every table by its id in the specification."""
    text = (files("opilio.lab") / "papers.toml").read_text("utf-8")
    return {t.id: t for t in msgspec.convert(tomllib.loads(text), _File).table}


def paper_table(name: str) -> PaperTable:
    """One table, or a message that lists what there is."""
    tables = paper_tables()
    if name not in tables:
        raise WebError(f"no paper table {name!r}; there are: {', '.join(tables)}")
    return tables[name]
