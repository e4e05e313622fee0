"""A crawl by four workers under faults: killed and stopped workers, cut connections, a server that is killed.

    python benchmarks/cluster/faults.py [FAULTS]

Starts its own PostgreSQL server and serves its own web. Prints what was lost, stored twice, fetched again, and the
shortest time between two requests to one host.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from checks.cluster_faults import FAULTS, LEASE_S, refetch_ratio, shortest_gap, working
from checks.postgres_server import running_server
from checks.small_webs import SmallWeb, grid, served, settings_for
from opilio.engine.wiring.session import create_collection
from opilio.lab.server.http import AccessLogEntry
from opilio.manage.verify import verify
from opilio.store.collection import open_readonly
from opilio.store.postgres.collection import folder_of
from opilio.topic.setup import resolve_settings

HOSTS, DELAY_S, WORKERS = 12, 0.25, 4


def main() -> None:
    faults = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    # Long enough that the crawl lasts until the last fault.
    web = SmallWeb(grid(HOSTS, max(40, 14 * faults)))
    with tempfile.TemporaryDirectory() as place, running_server() as server, served(web) as source:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        dsn = server.new_schema()
        tree = settings_for(
            source,
            ["http://h0.example/0.html"],
            politeness={"delay_s": DELAY_S},
            engine={"lease_s": LEASE_S},
            fetch={"retries": 3},
            stop={"pages": 0},
        )
        create_collection(folder_of(dsn), resolve_settings(tree), None)[0].close()
        began = time.monotonic()
        with working(server, dsn, WORKERS, Path(place)) as workers:
            done = 0
            while done < faults:
                if workers.state() == "running":
                    workers.inject(FAULTS[done % len(FAULTS)])
                    done += 1
                workers.fill()
                time.sleep(0.5)
            workers.request_stop()
            workers.finish()
        report(dsn, list(source.log), workers.done, time.monotonic() - began)


def report(dsn: str, log: list[AccessLogEntry], done: Counter[str], seconds: float) -> None:
    with open_readonly(folder_of(dsn)) as collection:
        db = collection.connection
        pages, distinct = db.execute("SELECT count(*), count(DISTINCT url) FROM page").fetchone()
        waiting = db.execute("SELECT count(*) FROM outcome").fetchone()[0]
        finished = db.execute("SELECT count(*) FROM frontier_url WHERE state = 2").fetchone()[0]
    print(f"{done.total()} faults {dict(done)} in {seconds:.0f} s")
    print(f"pages stored {pages}, twice {pages - distinct}, fetched URLs without a page {finished - pages}")
    print(f"results not applied {waiting}, problems found by verify {verify(folder_of(dsn))}")
    print(
        f"requests {len(log)}, repeated {refetch_ratio(log):.2%}, shortest gap {shortest_gap(log):.3f} s of {DELAY_S}"
    )


if __name__ == "__main__":
    main()
