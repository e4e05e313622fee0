"""Crawls that are killed and resumed, and what must be true of them at the end (nothing lost, nothing twice).

Used by the test (30 kills) and by benchmarks/killing (200).
"""

import os
import random
import signal
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from checks.small_webs import CONTEXT, PATIENCE_S, crawl, known, least_gap, rules_first, stored
from opilio.core.records import FetchResult
from opilio.core.settings import Tree
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry
from opilio.manage.verify import verify
from opilio.store.warc import response_record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own, of its own older names
    from fastwarc.warc import ArchiveIterator, WarcRecordType


def killed_after(folder: Path, tree: Tree, seconds: float, log: Sequence[AccessLogEntry] | None = None) -> bool:
    """Crawl in a process of its own and kill it after so long; False: it had ended by itself.

    With the server's `log` the time is counted from the first request on, however long a busy machine takes to start.
    """
    process = CONTEXT.Process(target=crawl, args=(folder, tree))
    before = len(log or ())
    process.start()
    while log is not None and len(log) == before and process.exitcode is None:
        time.sleep(0.002)
    process.join(seconds)
    assert process.pid is not None
    ended = process.exitcode is not None
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return not ended


def killed_by_part(
    folder: Path, tree: Tree, rng: random.Random, most_s: float, workers: int
) -> tuple[Counter[str], bool]:
    """Crawl in a process of its own and kill its workers one after another, at most `workers` of them, then the engine
    or all of its processes at once. Returns the kills by kind, and whether the crawl was still running at the end.

    After the end of an engine none of its processes may be left.
    """
    process = CONTEXT.Process(target=crawl, args=(folder, tree))
    process.start()
    assert process.pid is not None
    kills: Counter[str] = Counter()
    family: set[int] = set()
    for _ in range(workers):
        process.join(rng.uniform(0.0, most_s))
        family |= {*children(process.pid)}
        victims = [pid for pid in children(process.pid) if is_worker(pid)]
        if process.exitcode is not None or not victims:
            break
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(rng.choice(victims), signal.SIGKILL)
            kills["worker"] += 1
    process.join(rng.uniform(0.0, most_s))
    family |= {*children(process.pid)}
    running, kind = process.exitcode is None, rng.choice(("parent", "tree"))
    if running:
        kills[kind] += 1
        for pid in family if kind == "tree" else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    assert still_alive(sorted(family)) == [], "orphans"
    return kills, running


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended; none if it has ended itself."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_worker(pid: int) -> bool:
    """Is it a worker of a crawl, and not one of Python's own helpers?"""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _is_growing(log: Sequence[AccessLogEntry]) -> bool:
    before = len(log)
    time.sleep(0.05)
    return len(log) > before


def kill_often(
    folder: Path, tree: Tree, kills: int, most_s: float, rng: random.Random, log: Sequence[AccessLogEntry] | None = None
) -> int:
    """Kill a crawl at random moments until it was killed so often or has ended; then let it end. How many kills hit.

    With the server's `log` every second kill falls while pages are asked for, the others may fall into the start; and
    what a killed process had asked for is noted there before the next one asks.
    """
    done = 0
    while done < kills and killed_after(folder, tree, rng.uniform(0.0, most_s), log if done % 2 else None):
        done += 1
        while log is not None and _is_growing(log):
            pass
    assert not killed_after(folder, tree, PATIENCE_S)
    return done


def write_archive(path: Path, web: Mapping[str, RecordedResponse]) -> None:
    """A WARC file with the responses of a web."""
    answers = [
        FetchResult(url=url, status=r.status, headers=r.headers, body=r.body, started_at=1e9) for url, r in web.items()
    ]
    path.write_bytes(b"".join(map(response_record, answers)))


def same_as_undisturbed(killed: Path, undisturbed: Path) -> None:
    """The crawl that was killed knows the same URLs and holds the same pages, each once."""
    assert known(killed) == known(undisturbed)
    assert stored(killed) == stored(undisturbed)
    assert verify(killed) == []


def urls_in_warc(folder: Path) -> list[str]:
    """The pages in the WARC files, read to the last record by two readers that agree."""
    by_fastwarc: list[str] = []
    by_warcio: list[str] = []
    for path in sorted(folder.glob("pages-*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                record.parse_http()
                assert record.verify_payload_digest()
                by_fastwarc.append(record.headers["WARC-Target-URI"])
        with path.open("rb") as file:
            for entry in WarcioIterator(file, check_digests="raise"):
                entry.content_stream().read()
                if entry.rec_type == "response":
                    by_warcio.append(entry.rec_headers["WARC-Target-URI"])
    assert by_fastwarc == by_warcio
    return sorted(by_fastwarc)


def polite_throughout(log: Sequence[AccessLogEntry], delay_s: float) -> None:
    """No host was asked sooner than its delay allows, by whichever of the processes, and its rules were read first."""
    assert rules_first(log)
    assert least_gap(log) >= delay_s


def still_alive(pids: Sequence[int], patience_s: float = PATIENCE_S) -> list[int]:
    """Which of these processes live on, after time enough to end."""
    until = time.monotonic() + patience_s
    alive = list(pids)
    while alive and time.monotonic() < until:
        alive = [pid for pid in alive if _lives(pid)]
        time.sleep(0.02)
    return alive


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
