"""Brings a collection of an older schema to the current one: in place when it is opened for writing, as temporary
views when it is only read.

Here is what an older version wrote differently. Version 2 kept several meanings in `priority` and the number of the
agent in the first byte of `features`, had the table `wish` for commands, and had other names of events. Columns of
pages that came later have a fixed value (`PageColumn.older`).
"""

import re
import sqlite3

from opilio.store.schema import ADDED_COLUMNS, ADDED_TABLES, SCHEMA_VERSION

_LATER_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_BATCH_OFFSET = float(1 << 20)
_REVISIT_OFFSET = 2 * _BATCH_OFFSET
_BOOSTED_SCORE = 8.0
_TIER = f"""CASE WHEN priority >= {_REVISIT_OFFSET} THEN 3 WHEN priority >= {_BATCH_OFFSET / 2} THEN 1
    WHEN state < 2 AND score = {_BOOSTED_SCORE} THEN 2 ELSE 0 END"""
_PRIORITY = f"""CASE WHEN priority >= {_REVISIT_OFFSET} THEN priority - {_REVISIT_OFFSET}
    WHEN priority >= {_BATCH_OFFSET / 2} THEN priority - {_BATCH_OFFSET} ELSE priority END"""
_AGENT = "CASE WHEN length(features) > 0 THEN first_byte(features) ELSE 0 END"
_FEATURES = "nullif(substr(features, 2), x'')"
_BEST_URL = """SELECT tier, priority FROM frontier_url WHERE host_id = frontier_host.id AND state = 0
    ORDER BY tier DESC, priority DESC, seq LIMIT 1"""

_ADD_COLUMNS = (
    "ALTER TABLE frontier_url ADD COLUMN agent INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE frontier_url ADD COLUMN tier INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE frontier_host ADD COLUMN best_tier INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX IF EXISTS frontier_host_order",
    "DROP INDEX IF EXISTS frontier_url_queue",
    "DROP INDEX IF EXISTS frontier_url_tail",
)
_FILL_COLUMNS = (
    f"UPDATE frontier_url SET tier = {_TIER}, priority = {_PRIORITY}",
    f"UPDATE frontier_host SET (best_tier, best) = ({_BEST_URL}) WHERE best IS NOT NULL",
    """CREATE INDEX frontier_host_order ON frontier_host (best_tier DESC, best DESC, best_seq, wake_at)
        WHERE parked = 0 AND best IS NOT NULL""",
    "CREATE INDEX frontier_url_queue ON frontier_url (host_id, tier DESC, priority DESC, seq) WHERE state = 0",
)
_PAGE_TABLES = ("page", "version")
_OLD_COMMANDS = "SELECT id, at, word AS name, target, data FROM main.wish"
EVENT_NAMES = {
    "AgentMissing": "AgentLost",
    "WishTaken": "CommandApplied",
    "PageLeft": "PageRemoved",
    "PageLabelled": "PageLabeled",
    "LabelTakenBack": "LabelRemoved",
}
_EVENT_CASES = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in EVENT_NAMES.items())
_EVENT_KIND = f"CASE kind {_EVENT_CASES} ELSE kind END"
_OLD_EVENT = "kind IN ('" + "', '".join(EVENT_NAMES) + "')"
# The data holds the name once more, and a command was called a word.
_EVENT_DATA = f"""CAST(replace(json_set(CAST(data AS TEXT), '$.type', {_EVENT_KIND}), '"word":', '"command":')
    AS BLOB)"""


def upgrade(connection: sqlite3.Connection) -> None:
    """Change the tables of an older collection into the current ones, inside the caller's transaction."""
    if _has_old_frontier(connection):
        for statement in _ADD_COLUMNS + _FILL_COLUMNS:
            connection.execute(statement)
        if _has_agents(connection):
            connection.execute(f"UPDATE frontier_url SET agent = {_AGENT}, features = {_FEATURES}")
    if _columns(connection, "wish"):
        connection.execute(f"INSERT INTO command (id, at, name, target, data) {_OLD_COMMANDS}")
        connection.execute("DROP TABLE wish")
        connection.execute("UPDATE meta SET name = 'commands_applied' WHERE name = 'wishes_taken'")
    connection.execute(f"UPDATE event SET kind = {_EVENT_KIND}, data = {_EVENT_DATA} WHERE {_OLD_EVENT}")
    for table in _PAGE_TABLES:
        for name in _missing_columns(connection, table):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {ADDED_COLUMNS[name][0]}")


def emulate(connection: sqlite3.Connection) -> None:
    """Let a reader see an older collection as the current schema: temporary tables and views in place of its own."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for statement in ADDED_TABLES.split(";\n"):
        found = _LATER_TABLE.search(statement)
        if found and found[1] not in there:
            connection.execute(f"CREATE TEMP TABLE {found[1]}{statement[found.end() :]}")
    if _has_old_frontier(connection):
        values = {"priority": _PRIORITY}
        agent = "0"
        if _has_agents(connection):
            agent, values["features"] = _AGENT, _FEATURES
        columns = [f"{values.get(name, name)} AS {name}" for name in _columns(connection, "frontier_url")]
        connection.execute(
            f"CREATE TEMP VIEW frontier_url AS SELECT {', '.join(columns)}, {agent} AS agent, {_TIER} AS tier"
            " FROM main.frontier_url"
        )
        columns = [name for name in _columns(connection, "frontier_host") if name != "best"]
        connection.execute(
            f"CREATE TEMP VIEW frontier_host AS SELECT {', '.join(columns)},"
            f" coalesce((SELECT tier FROM ({_BEST_URL})), 0) AS best_tier,"
            f" (SELECT priority FROM ({_BEST_URL})) AS best FROM main.frontier_host"
        )
    if _columns(connection, "wish"):
        connection.execute("DROP TABLE IF EXISTS temp.command")
        connection.execute(f"CREATE TEMP VIEW command AS {_OLD_COMMANDS}")
    data = f"CASE WHEN {_OLD_EVENT} THEN {_EVENT_DATA} ELSE data END"
    connection.execute(
        f"CREATE TEMP VIEW event AS SELECT id, at, {_EVENT_KIND} AS kind, {data} AS data FROM main.event"
    )
    for table in _PAGE_TABLES:
        if missing := _missing_columns(connection, table):
            added = ", ".join(f"{ADDED_COLUMNS[name][1]} AS {name}" for name in missing)
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {added} FROM main.{table}")


def _has_old_frontier(connection: sqlite3.Connection) -> bool:
    columns = _columns(connection, "frontier_url")
    return bool(columns) and "tier" not in columns


def _has_agents(connection: sqlite3.Connection) -> bool:
    """Do features begin with the number of an agent? Also provides the SQL function that reads it."""
    connection.create_function("first_byte", 1, lambda blob: blob[0], deterministic=True)
    there = bool(_columns(connection, "agent"))
    return there and connection.execute("SELECT 1 FROM main.agent LIMIT 1").fetchone() is not None


def _missing_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The added columns that a table of pages lacks; none if there is no such table."""
    there = _columns(connection, table)
    return [name for name in ADDED_COLUMNS if there and name not in there]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
