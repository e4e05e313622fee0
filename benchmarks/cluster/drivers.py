"""psycopg 3 beside asyncpg: CPU time of the client for the statements of a frontier, on a server that is given.

    python benchmarks/cluster/drivers.py postgresql://…

asyncpg is not a dependency: install it for this measurement only.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

BATCHES, LINKS, LEASES = 200, 100, 2000
CREATE = "CREATE TEMP TABLE measured (host bigint, key bigint, score float8, url text, PRIMARY KEY (host, key))"
COLUMNS = "SELECT * FROM unnest({}::bigint[], {}::bigint[], {}::float8[], {}::text[]) ON CONFLICT DO NOTHING"
READ = "SELECT url, score FROM measured WHERE host = {} AND key = {}"


def batch(number: int) -> tuple[list[int], list[int], list[float], list[str]]:
    keys = [number * LINKS + n for n in range(LINKS)]
    return [k % 97 for k in keys], keys, [k / 7 for k in keys], [f"http://h{k % 97}.example/{k}.html" for k in keys]


def measure_psycopg(dsn: str) -> dict[str, float]:
    import psycopg

    spent = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CREATE)
        insert = "INSERT INTO measured " + COLUMNS.format(*["%s"] * 4)
        began = time.process_time()
        for number in range(BATCHES):
            connection.execute(insert.encode(), batch(number))
        spent["us/URL insert"] = (time.process_time() - began) / BATCHES / LINKS * 1e6
        began = time.process_time()
        for number in range(LEASES):
            connection.execute(READ.format("%s", "%s").encode(), (number % 97, number)).fetchall()
        spent["us/read"] = (time.process_time() - began) / LEASES * 1e6
    return spent


async def measure_asyncpg(dsn: str) -> dict[str, float]:
    import asyncpg  # type: ignore[import-not-found,import-untyped,unused-ignore]

    spent = {}
    connection: Any = await asyncpg.connect(dsn)
    await connection.execute(CREATE)
    insert = "INSERT INTO measured " + COLUMNS.format("$1", "$2", "$3", "$4")
    began = time.process_time()
    for number in range(BATCHES):
        await connection.execute(insert, *batch(number))
    spent["us/URL insert"] = (time.process_time() - began) / BATCHES / LINKS * 1e6
    began = time.process_time()
    for number in range(LEASES):
        await connection.fetch(READ.format("$1", "$2"), number % 97, number)
    spent["us/read"] = (time.process_time() - began) / LEASES * 1e6
    await connection.close()
    return spent


def main() -> None:
    dsn = sys.argv[1]
    measures: list[tuple[str, Callable[[], dict[str, float] | Awaitable[dict[str, float]]]]] = [
        ("psycopg", lambda: measure_psycopg(dsn)),
        ("asyncpg", lambda: asyncio.run(measure_asyncpg(dsn))),
    ]
    for turn in range(3):
        for name, measure in measures:
            try:
                print(turn, name, measure())
            except ImportError:
                print(turn, name, "not installed")


if __name__ == "__main__":
    main()
