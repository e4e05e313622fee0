"""What the SQLite frontier costs: lease + complete at several sizes, and add in the usual mix.

    python benchmarks/frontier/run.py --urls 100000 --hosts 100000 --urls 10000000 --hosts 100000 --dir /tmp/x

Each pair of --urls and --hosts is one case, run in a process of its own. CPU is user + system time of that process.
See README.md beside this file for what is compared.
"""

import argparse
import json
import random
import resource
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from opilio.core.records import Lead, UrlResult, UrlState, url_key
from opilio.frontier.policy import BestFirst, FrontierPolicy
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.frontier import SqliteFrontier

NOW = 1_000_000.0


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_mib() -> tuple[float, float]:
    """Now and at most."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def connect(path: Path, cache_mib: int, mmap_mib: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        f"cache_size = {-cache_mib * 1024}",
        f"mmap_size = {mmap_mib * 2**20}",
        "wal_autocheckpoint = 4000",
    ):
        db.execute(f"PRAGMA {pragma}")
    return db


def url_of(host: int, n: int) -> str:
    return f"http://host{host}.example/section-{n % 13}/some-page-about-things-{n}.html"


def fill(db: sqlite3.Connection, urls: int, hosts: int) -> None:
    """Queue `urls` URLs evenly over `hosts` hosts, in key order: no page is written twice."""
    rng = random.Random(1)
    create_frontier_tables(db)
    each, extra = divmod(urls, hosts)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("DROP INDEX frontier_url_queue")
    db.execute("BEGIN")
    host_rows, seq = [], 0
    for host in range(1, hosts + 1):
        rows = []
        for n in range(each + (host <= extra)):
            seq += 1
            url = url_of(host, n)
            score = rng.random()
            rows.append((host, url_key(url), 0, seq, score, score, 3, 0, seq, 0, 0, 1, url, b"12345678"))
        rows.sort()
        db.executemany(
            "INSERT INTO frontier_url (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops, retries,"
            " found, url, parents) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            rows,
        )
        best = max(rows, key=lambda r: (r[4], -r[3]))
        host_rows.append((host, f"host{host}.example", best[4], best[3], len(rows), len(rows)))
    db.executemany(
        "INSERT INTO frontier_host (id, name, best, best_seq, queued, total) VALUES (?,?,?,?,?,?)", host_rows
    )
    db.execute("UPDATE frontier_count SET generation = 1, inserted = ?, queued = ?, hosts = ?", (urls, urls, hosts))
    db.execute("COMMIT")
    create_frontier_tables(db)  # the index, built by sorting
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def lease_and_complete(frontier: SqliteFrontier, db: sqlite3.Connection, urls: int, per_host: int) -> dict[str, float]:
    """Batches as the engine makes them: 32 hosts leased, all of them completed in one transaction."""
    # Time continues from the end of the run before: its hosts have waited long enough.
    now = max(NOW, db.execute("SELECT max(wake_at) FROM frontier_host").fetchone()[0])
    started, cpu, handled = time.perf_counter(), cpu_s(), 0
    while handled < urls:
        now += 0.1
        db.execute("BEGIN IMMEDIATE")
        leases = frontier.lease(now, 32, per_host, 60.0)
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        for lease in leases:
            results = [UrlResult(key=x.key, host=x.host, state=UrlState.DONE) for x in lease.leads]
            assert frontier.complete(lease, results, now + 1.0)
            handled += len(results)
        db.execute("COMMIT")
        if not leases:
            break
    return {
        "urls": handled,
        "cpu_us_per_url": (cpu_s() - cpu) / handled * 1e6,
        "wall_us_per_url": (time.perf_counter() - started) / handled * 1e6,
    }


def add_pages(frontier: SqliteFrontier, db: sqlite3.Connection, pages: int, hosts: int) -> dict[str, float]:
    """Pages of 100 links, 80 of them known; the first half of the pages warms up and is not measured.

    The crawl is busy with 200 hosts. New: 16 links to the page's own host, 4 to two others. Known: 40 links of
    navigation that every page of the host has, 30 to pages of it found before, 10 to pages found anywhere.
    """
    batches = list(_pages(pages, hosts, random.Random(2)))
    warm = pages // 2
    _add_all(frontier, db, batches[:warm])
    started, cpu = time.perf_counter(), cpu_s()
    new, raised = _add_all(frontier, db, batches[warm:])
    timed = pages - warm
    return {
        "pages": timed,
        "new_per_page": new / timed,
        "raised_per_page": raised / timed,
        "cpu_ms_per_page": (cpu_s() - cpu) / timed * 1e3,
        "wall_ms_per_page": (time.perf_counter() - started) / timed * 1e3,
        "front_hit_rate": frontier.stats().cache_hit_rate,
    }


def _pages(pages: int, hosts: int, rng: random.Random) -> Iterator[list[Lead]]:
    recent: dict[int, list[Lead]] = defaultdict(list)
    busy = rng.sample(range(1, hosts + 1), min(hosts, 200))
    for page in range(pages):
        home = rng.choice(busy)
        targets = [home] * 8 + [1 + rng.randrange(hosts) for _ in range(2)]
        fresh = [_lead(targets[n % 10], 10_000_000 + page * 100 + n, rng, page) for n in range(20)]
        known = [_lead(home, n, rng, page) for n in range(40)]
        for lead in fresh:
            recent[home].append(lead)
        known += [_again(rng.choice(recent[home]), rng, page) for _ in range(30)]
        known += [_again(rng.choice(recent[rng.choice(list(recent))]), rng, page) for _ in range(10)]
        yield [*fresh, *known]


def _add_all(frontier: SqliteFrontier, db: sqlite3.Connection, batches: list[list[Lead]]) -> tuple[int, int]:
    """One transaction for 32 pages, as the engine makes them."""
    new = raised = 0
    for start in range(0, len(batches), 32):
        db.execute("BEGIN IMMEDIATE")
        for batch in batches[start : start + 32]:
            added = frontier.add(batch, NOW)
            new, raised = new + added.new, raised + added.promoted
        db.execute("COMMIT")
    return new, raised


def _lead(host: int, n: int, rng: random.Random, page: int) -> Lead:
    url = url_of(host, n)
    return Lead(url=url, key=url_key(url), host=f"host{host}.example", score=rng.random(), depth=3, parent=page + 1)


def _again(lead: Lead, rng: random.Random, page: int) -> Lead:
    # One in five links found again is better than the first one was.
    score = lead.score * rng.uniform(0.2, 1.2)
    return Lead(url=lead.url, key=lead.key, host=lead.host, score=score, depth=3, parent=page + 1)


def run_case(args: argparse.Namespace) -> dict[str, object]:
    urls, hosts = args.urls[0], args.hosts[0]
    path = Path(args.dir) / f"frontier-{urls}-{hosts}.db"
    if not path.exists():
        db = connect(path, args.cache, 0)
        fill(db, urls, hosts)
        db.close()
    if args.fill_only:
        return {}
    db = connect(path, args.cache, args.mmap)
    frontier = SqliteFrontier(db, FrontierPolicy(order=BestFirst()))
    lease_and_complete(frontier, db, args.measure // 10, args.per_host)
    result: dict[str, object] = {"queued": urls, "hosts": hosts, "file_mib": path.stat().st_size / 2**20}
    result["lease_complete"] = lease_and_complete(frontier, db, args.measure, args.per_host)
    result["rss_mib_after_lease"], _ = rss_mib()
    result["add"] = add_pages(frontier, db, args.pages, hosts)
    result["rss_mib"], result["peak_rss_mib"] = rss_mib()
    db.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, action="append", required=True)
    parser.add_argument("--hosts", type=int, action="append", required=True)
    parser.add_argument("--per-host", type=int, default=4)
    parser.add_argument("--measure", type=int, default=20_000, help="URLs leased and completed")
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--cache", type=int, default=64, help="SQLite page cache, MiB")
    parser.add_argument("--mmap", type=int, default=1024, help="MiB of the file mapped into memory")
    parser.add_argument("--dir", required=True, help="where the databases go; they are used up, remove them after")
    parser.add_argument("--fill-only", action="store_true")
    args = parser.parse_args()
    if len(args.urls) == 1:
        print(json.dumps(run_case(args), indent=1))
        return
    options = [f"--{n}={getattr(args, n)}" for n in ("measure", "pages", "cache", "mmap", "dir")]
    options += [f"--per-host={args.per_host}"]
    for urls, hosts in zip(args.urls, args.hosts, strict=True):
        for last in (["--fill-only"], []):  # filling leaves a large heap behind: measure in a fresh process
            case = [sys.executable, __file__, f"--urls={urls}", f"--hosts={hosts}", *options, *last]
            subprocess.run(case, check=True)


if __name__ == "__main__":
    main()
