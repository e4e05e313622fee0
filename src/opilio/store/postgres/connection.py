"""A connection to PostgreSQL as a `Database`: the same statements as for SQLite, with values written as `?`.

What differs is settled here and nowhere else: placeholders, flags (integers in both databases), and sums of integers
(PostgreSQL gives decimals). psycopg prepares a statement on the server after its fifth use.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from types import ModuleType
from typing import Any

from opilio.core.errors import CollectionError, MissingExtraError, ServerError, UsageError
from opilio.core.protocols import Rows, Values

SCHEME = "postgresql://"
CONNECT_TIMEOUT_S = 10
# A worker that hangs must not hold locks: the server ends its transaction.
_SESSION_OPTIONS = (
    "SET idle_in_transaction_session_timeout = '120s'",
    "SET statement_timeout = '600s'",
    "SET lock_timeout = '60s'",
)
# A machine that vanished without closing its connections is noticed within half a minute.
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
_TOKEN = re.compile(r"('(?:[^']|'')*')|\?|(?<![:\w]):([a-z]\w*)|%")
# Words of our statements that PostgreSQL spells differently. Keywords are upper case: `offset` is the column.
_SPELLING = {
    r"(?<!:)\boffset\b": '"offset"',
    r"\binstr\(": "strpos(",
    r"\bIN \(\)": "IN (NULL)",
    r"\b9e999\b": "CAST('infinity' AS double precision)",
    r"CAST\(data AS TEXT\)": "convert_from(data, 'UTF8')",
    r"PRAGMA integrity_check\(20\)": "SELECT 'ok'",
    r"PRAGMA optimize = 0x10002": "ANALYZE",
    # The server checks its own indexes.
    r"^REINDEX$": "SELECT 'ok'",
    r"\bx''": "CAST('' AS bytea)",
}
_WORDS = re.compile("|".join(f"({word})" for word in _SPELLING))
_SPELLINGS = tuple(_SPELLING.values())


class ConnectionLostError(ServerError):
    """The server is gone, or ended the connection: what was not committed has not happened."""


class RetryTransactionError(CollectionError):
    """The server rolled the transaction back for the sake of another; it may be tried again at once."""


def _driver() -> ModuleType:
    """psycopg, which only collections in PostgreSQL need."""
    try:
        import psycopg
        import psycopg.adapt
    except ImportError as error:
        raise MissingExtraError(f"{SCHEME}…: needs psycopg; install it with: pip install 'opilio[postgres]'") from error
    return psycopg


def _dump_flag(_: object, flag: object) -> bytes:
    """Flags are integers, as in SQLite."""
    return b"1" if flag else b"0"


def _load_number(_: object, data: bytes) -> float:
    """The sum of integers as an integer."""
    value = Decimal(bytes(data).decode())
    return int(value) if value == value.to_integral_value() else float(value)


def _adapt(connection: Any) -> None:  # noqa: ANN401 - a connection of psycopg
    """Teach a connection our flags and numbers."""
    psycopg = _driver()
    flag = {"oid": psycopg.adapters.types["int2"].oid, "dump": _dump_flag}
    connection.adapters.register_dumper(bool, type("FlagDumper", (psycopg.adapt.Dumper,), flag))
    number = type("NumberLoader", (psycopg.adapt.Loader,), {"load": _load_number})
    connection.adapters.register_loader("numeric", number)


@lru_cache(maxsize=2000)
def to_pyformat(sql: str) -> str:
    r"""A statement with the placeholders of psycopg.

    >>> to_pyformat("SELECT offset FROM t WHERE b = ? AND c LIKE '?%' AND d = :name AND e % 2 = 0")
    'SELECT "offset" FROM t WHERE b = %s AND c LIKE \'?%%\' AND d = %(name)s AND e %% 2 = 0'
    """

    def replace(found: re.Match[str]) -> str:
        literal, name = found.groups()
        if literal is not None:
            return literal.replace("%", "%%")
        if name is not None:
            return f"%({name})s"
        return "%s" if found[0] == "?" else "%%"

    spelled = _WORDS.sub(lambda found: _SPELLINGS[(found.lastindex or 1) - 1], sql)
    return _TOKEN.sub(replace, spelled)


class PostgresConnection:
    """See `Database`. Errors of the server become errors of the collection, with the address but without password.

    `relaxed`: a commit does not wait for the disk or the standby. The server keeps the order of commits, so that a
    crash loses the last of them and nothing else; only for what is then done again.
    """

    def __init__(self, dsn: str, *, relaxed: bool = False) -> None:
        psycopg = _driver()
        self.address = public_address(dsn)
        given = psycopg.conninfo.conninfo_to_dict(dsn)
        more = {name: value for name, value in _KEEPALIVE.items() if name not in given}
        try:
            self._connection: Any = psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, **more)
            _adapt(self._connection)
            for option in (*_SESSION_OPTIONS, *(("SET synchronous_commit = off",) if relaxed else ())):
                self._connection.execute(option)
        except psycopg.OperationalError as error:
            raise ConnectionLostError(f"{self.address}: can't connect: {_first_line(error)}") from error
        except psycopg.Error as error:
            raise ServerError(f"{self.address}: can't connect: {_first_line(error)}") from error

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.info.transaction_status)

    @property
    def backend_pid(self) -> int:
        """The number of the server process of this connection, unique among the open ones."""
        return int(self._connection.info.backend_pid)

    def execute(self, sql: str, values: Values = (), /) -> Rows:
        with self._translate_errors():
            rows: Rows = self._connection.execute(to_pyformat(sql), values)
        return rows

    def executemany(self, sql: str, values: Iterable[Values], /) -> Rows:
        with self._translate_errors():
            cursor: Any = self._connection.cursor()
            cursor.executemany(to_pyformat(sql), values)
        rows: Rows = cursor
        return rows

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        psycopg = _driver()
        errors = psycopg.errors
        try:
            yield
        except (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable) as error:
            raise RetryTransactionError(f"{self.address}: {_first_line(error)}") from error
        # Repeating the statement would take as long again.
        except errors.QueryCanceled as error:
            problem = f"{_first_line(error)}; is the server overloaded, or a lock held?"
            raise CollectionError(f"{self.address}: {problem}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ConnectionLostError(f"{self.address}: connection lost: {_first_line(error)}") from error
        except errors.InsufficientPrivilege as error:
            problem = f"{_first_line(error)}; grant the rights to this user, or connect as the owner"
            raise ServerError(f"{self.address}: {problem}") from error
        except errors.InvalidSchemaName as error:
            raise missing_schema(self.address) from error
        except psycopg.Error as error:
            raise CollectionError(f"{self.address}: {_first_line(error)}") from error


def missing_schema(address: str) -> ServerError:
    problem = "the schema of this address does not exist, or this user may not use it; create it"
    return ServerError(f"{address}: {problem}, or grant the rights to this user")


@contextmanager
def postgres_transaction(connection: PostgresConnection) -> Iterator[None]:
    """Everything written inside is one commit, or nothing is."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except ConnectionLostError:
        raise
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_postgres(place: str) -> bool:
    """Is this the address of a database and not a folder?"""
    return place.startswith((SCHEME, "postgres://"))


def public_address(dsn: str) -> str:
    """The address without user and password, for messages and reports.

    >>> public_address("postgresql://crawler:secret@db.example:5433/birds")
    'postgresql://db.example:5433/birds'
    """
    psycopg = _driver()
    try:
        parts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error as error:
        # The driver quotes the address, which may contain a password.
        reason = _first_line(error).replace(f'in URI: "{dsn}"', "").strip()
        problem = f"not a valid address of a PostgreSQL database: {reason}"
        raise UsageError(f"{problem}; for example {SCHEME}user@host:5432/name") from error
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{SCHEME}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
