"""SQL stays in the packages that own tables; all others use the functions of those packages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import opilio

SOURCE = Path(opilio.__file__).parent
OWNERS = ("store", "frontier", "dedup", "search")
EXECUTE = frozenset({"execute", "executemany", "executescript"})
STATEMENT = re.compile(
    r"\s*(SELECT\s.*\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TEMP\s+)?"
    r"(TABLE|VIEW|INDEX)\s|(ALTER|DROP)\s+TABLE\s|WITH\s+(RECURSIVE\s+)?\w+(\s*\([^)]*\))?\s+AS\s*\(|PRAGMA\s+\w)",
    re.DOTALL,
)


def sql_in(code: str) -> Iterator[str]:
    """Lines that execute SQL or hold a statement."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EXECUTE:
            yield f"line {node.lineno}: .{node.func.attr}()"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.match(node.value):
            yield f"line {node.lineno}: {node.value.split(maxsplit=1)[0]}"


def test_sql_stays_in_the_packages_that_own_tables() -> None:
    found = [
        f"{path.relative_to(SOURCE)} {line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0].removesuffix(".py") not in OWNERS
        for line in sql_in(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "use a function of store, frontier, dedup or search, or add one there"


@pytest.mark.parametrize(
    "code",
    [
        'db.execute("SELECT 1")',
        "db.executemany(SQL, rows)",
        'SQL = "SELECT url FROM page"',
        'SQL = f"INSERT OR REPLACE INTO {table} VALUES (?)"',
        'SQL = "UPDATE page SET score = 0"',
        'SQL = "DELETE FROM page"',
        'SQL = "CREATE TABLE page (key INTEGER)"',
        'SQL = "ALTER TABLE page ADD COLUMN score REAL"',
        'SQL = "WITH RECURSIVE path (key) AS (SELECT 1) SELECT key FROM path"',
    ],
)
def test_sql_is_recognised(code: str) -> None:
    assert list(sql_in(code))
