"""Memory of a crawl of thousands of hostile hosts.

    python -m benchmarks.soak.hostile --hosts 5000

Every host is hostile in one of ten ways (`answer`). All are seeds, so the crawl meets all of them. Prints the highest
memory of all its processes together, sampled every half second; the target is less than 600 MB.
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import tomli_w

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from benchmarks.soak.run import COMMAND, Use, memory_use

from checks.small_webs import BIRDS, HTML, page, redirect, robots, served, word
from opilio.core.urls import host_of
from opilio.fetch.decoding import RecordedResponse
from opilio.store.collection import open_readonly

KINDS = 10
LIGHT_KINDS = (5, 6, 7, 9)  # that cost little processor time
HEAVY_EVERY = 40  # hosts: the first ten of each group have one kind each, the others a light one
LINKS = 5_000
BODY_BYTES = 3_900_000  # just below the limit of a body


@cache
def large(kind: str) -> bytes:
    """Bodies that are the same at all hosts, made once."""
    if kind == "rules":
        return b"User-agent: *\n" + b"".join(b"Disallow: /%d/*/x$\n" % number for number in range(25_000))
    if kind == "nested":
        return b"<div><p><a href=x>wren " * (BODY_BYTES // 24)
    if kind == "bomb":
        return gzip.compress(bytes(100_000_000))
    return (BIRDS.encode() + b" ") * (BODY_BYTES // len(BIRDS) - 100)


def answer(number: int, url: str) -> RecordedResponse:
    """What host `number` answers for a page."""
    kind = number % KINDS if number % HEAVY_EVERY < KINDS else LIGHT_KINDS[number % len(LIGHT_KINDS)]
    own = page(f"{BIRDS} {word(number)}")
    cookies = tuple(("Set-Cookie", f"c{cookie}={'x' * 3000}") for cookie in range(20))
    make: dict[int, Callable[[], RecordedResponse]] = {
        0: lambda: own,  # its robots.txt is hostile
        # A trap: every page has thousands of new links.
        1: lambda: page(word(number), [f"{url}{link}" for link in range(LINKS)]),
        2: lambda: RecordedResponse(200, (HTML,), large("nested")),
        3: lambda: RecordedResponse(200, (HTML,), b"<p>" + large("text")),
        # Thousands of hosts that do not exist.
        4: lambda: page(word(number), [f"http://n{number}-{link}.example/" for link in range(LINKS)]),
        5: lambda: redirect(f"{url}x"),
        6: lambda: RecordedResponse(200, (HTML, *cookies), own.body),
        7: lambda: RecordedResponse(429, (HTML, ("Retry-After", "86400")), b""),
        8: lambda: RecordedResponse(200, (HTML, ("Content-Encoding", "gzip")), large("bomb")),
        9: lambda: page(f"{BIRDS} {word(number)}", title="t" * 100_000),
    }
    return make[kind]()


class HostileWeb:
    """Answers for hosts h0.example, h1.example and so on."""

    def __init__(self, hosts: int) -> None:
        self.hosts = {f"h{number}.example": 1 for number in range(hosts)}

    def find(self, url: str) -> RecordedResponse | None:
        host = host_of(url)
        if host not in self.hosts:
            return None
        number = int(host[1:].partition(".")[0])
        if url.endswith("/robots.txt"):
            return robots(large("rules").decode()) if number % HEAVY_EVERY == 0 else None
        return answer(number, url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=5_000)
    given = parser.parse_args()
    web = HostileWeb(given.hosts)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, served(web) as server:
        folder, config = Path(place) / "collection", Path(place) / "crawl.toml"
        tree = {
            "topic": {"name": "wrens and other small birds"},
            "seeds": {"urls": [f"http://{host}/" for host in web.hosts]},
            "politeness": {"delay_s": 0.0},
            "fetch": {"proxy": server.proxy, "retries": 0},
            "frontier": {"max_depth": 1},
            "stop": {"pages": 0, "fetches": 2 * given.hosts, "harvest_below": 0.0, "patience_s": 1.0},
        }
        config.write_text(tomli_w.dumps(tree), encoding="utf-8")
        crawl = subprocess.Popen([*COMMAND, "crawl", "--quiet", "--into", str(folder), "--config", str(config)])
        highest = Use(0.0, 0.0, 0.0)
        while crawl.poll() is None:
            time.sleep(0.5)
            use = memory_use(crawl.pid)
            highest = max(highest, use, key=lambda found: found.own_mb)
            sys.stderr.write(f"\r{len(server.log)} requests, {use.own_mb:.0f} MB, {use.cpu_s:.0f} s of CPU ")
        with open_readonly(folder) as collection:
            count = "SELECT count(*), count(DISTINCT host_id) FROM frontier_url"
            urls, hosts = collection.connection.execute(count).fetchone()
        asked = len({access.host for access in server.log})
        print(
            f"\n{asked} hosts asked, {len(server.log)} requests, {urls} URLs at {hosts} hosts known:"
            f" at most {highest.own_mb:.0f} MB and {highest.mapped_mb:.0f} MB of mapped files"
        )


if __name__ == "__main__":
    main()
