"""What the pages and answers of a collection add up to, kept up to date by reading only what is new.

A collection has no table of sums per host, and adding them up anew for every look would cost a running crawl its
speed. So each server keeps the sums and reads the rows behind the last one it knows: two ranges of an index.
"""

import sqlite3
from array import array
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock

import msgspec


class HostSum(msgspec.Struct):
    """What a host brought."""

    pages: int = 0
    relevant: int = 0
    last_status: int = 0
    last_at: float = 0.0

    @property
    def harvest(self) -> float:
        return self.relevant / self.pages if self.pages else 0.0


@dataclass(slots=True)
class Tally:
    """The sums of one collection. Pages stand in the order they were committed."""

    hosts: dict[str, HostSum] = field(default_factory=dict)
    relevant: bytearray = field(default_factory=bytearray)  # 1 for each relevant page
    times: "array[float]" = field(default_factory=lambda: array("d"))
    failures: Counter[str] = field(default_factory=Counter)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)  # pages of a host first found on another's
    fetched: int = 0
    lock: Lock = field(default_factory=Lock)
    _places: dict[int, tuple[int, str]] = field(default_factory=dict)  # key of a page to its place and host
    _mark: tuple[int, str] = (0, "")  # the last answer that was read, and the labels that were taken up then

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Read what came since; a person's word about old pages makes it begin again."""
        with self.lock:
            labels = _labels(connection)
            if labels != self._mark[1]:
                self._forget(labels)
            self._read_pages(connection)
            self._read_answers(connection)

    def _forget(self, labels: str) -> None:
        self.hosts.clear()
        self.relevant.clear()
        self.times = array("d")
        self.failures.clear()
        self.ways.clear()
        self._places.clear()
        self.fetched = 0
        self._mark = (0, labels)

    def _read_pages(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(
            "SELECT key, host, relevant, fetched_at, status, parent FROM page WHERE seq > ? ORDER BY seq",
            (self._mark[0],),
        )
        for key, host, relevant, at, status, parent in rows:
            one = self.hosts.get(host)
            if one is None:
                one = self.hosts[host] = HostSum()
            known = self._places.get(key)
            if known is None:
                self._places[key] = (len(self.relevant), host)
                self.relevant.append(relevant)
                self.times.append(at)
                one.pages += 1
                _, finder = self._places.get(parent, (0, host))
                if finder != host:
                    self.ways[finder, host] += 1
            else:  # fetched once more
                one.relevant -= self.relevant[known[0]]
                self.relevant[known[0]] = relevant
            one.relevant += relevant
            one.last_status, one.last_at = status, at

    def _read_answers(self, connection: sqlite3.Connection) -> None:
        last = self._mark[0]
        rows = connection.execute("SELECT seq, status, failure FROM answer WHERE seq > ? ORDER BY seq", (last,))
        for seq, status, failure in rows:
            last = seq
            self.fetched += 1
            if failure and failure != "status":
                self.failures[failure] += 1
            elif status >= 400:
                self.failures[f"status {status}"] += 1
        self._mark = (last, self._mark[1])

    def rate(self, now: float, window_s: float = 20.0) -> float:
        """Pages a second in the last seconds."""
        with self.lock:
            start = len(self.times)
            while start > 0 and self.times[start - 1] > now - window_s:
                start -= 1
            count = len(self.times) - start
            return count / max(1.0, min(window_s, now - self.times[start])) if count else 0.0


def _labels(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT value FROM meta WHERE name = 'labels_taken'").fetchone()
    return str(row[0]) if row else ""
