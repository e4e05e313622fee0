"""Attacks that succeeded on an early version (7e1e3cc), through the command line, which it shares with this one.

    OPILIO_COMMAND=/path/to/the/early/opilio python -m pytest tests/engine/test_engine_known_attacks.py

runs them against another installed version; all of them fail on the early one. See docs/security.md for the others.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from checks.small_webs import BIRDS, HTML, SmallWeb, page, robots, rows, served
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry

pytestmark = [pytest.mark.slow, pytest.mark.process]

ROOT = "http://a.example/"
COMMAND = os.environ.get("OPILIO_COMMAND", "").split() or [sys.executable, "-m", "opilio"]
# Another version must not import this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or len(COMMAND) > 1}
CPU_S = 25  # of each process of a crawl; the kernel ends it
# In a small process of its own: the highest memory of a process counts that of the one it was forked from.
MEASURE = f"""
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S}))
subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def crawl(folder: Path, web: Mapping[str, RecordedResponse], *seeds: str) -> tuple[list[AccessLogEntry], int]:
    """Crawl a web; returns the requests and the highest memory of a process of the crawl in MB."""
    options = ["--quiet", "--workers", "1", "--set", "politeness.delay_s=0", "--set", "stop.patience_s=1"]
    with served(SmallWeb(dict(web))) as server:
        command = [*COMMAND, "crawl", "wrens and other small birds", "--into", str(folder), "--proxy", server.proxy]
        urls = [part for url in seeds or [ROOT] for part in ("--seed", url)]
        measured = [sys.executable, "-c", MEASURE, *command, *options, *urls]
        done = subprocess.run(measured, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
        return list(server.log), int(done.stdout.split()[-1]) // 1024


def hosts(log: list[AccessLogEntry]) -> set[str]:
    return {entry.host for entry in log}


def test_title_of_punctuation_does_not_hang_a_worker(tmp_path: Path) -> None:  # F1
    web = {ROOT: page(BIRDS, ["/next"], title="404" + "-" * 90_000 + "x"), f"{ROOT}next": page(f"{BIRDS} next")}
    crawl(tmp_path / "c", web)
    assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(2,)]


def test_rules_of_many_hosts_take_bounded_memory(tmp_path: Path) -> None:  # F2
    rules = "User-agent: *\n" + "".join(f"Disallow: /{number}/*/x$\n" for number in range(25_000))
    web: dict[str, RecordedResponse] = {}
    for number in range(16):
        web |= {
            f"http://h{number}.example/": page(f"{BIRDS} {number}"),
            f"http://h{number}.example/robots.txt": robots(rules),
        }
    _, megabytes = crawl(tmp_path / "c", web, *(url for url in web if url.endswith("/")))
    assert rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE state = 2") == [(16,)]
    assert megabytes < 300


def test_private_addresses_are_not_requested_from_a_proxy(tmp_path: Path) -> None:  # F4
    private = ("169.254.169.254", "127.0.0.1:6379", "[::1]")
    log, _ = crawl(tmp_path / "c", {ROOT: page(BIRDS, [f"http://{host}/wren" for host in private])})
    assert hosts(log) == {"a.example"}


def test_link_in_ruby_parentheses_does_not_lose_the_page(tmp_path: Path) -> None:  # F12
    body = f"<p>{BIRDS}<ruby>wren<rp><a href=m>(</a></rp></ruby>"
    crawl(tmp_path / "c", {ROOT: RecordedResponse(200, (HTML,), body.encode())})
    assert rows(tmp_path / "c", "SELECT url FROM page") == [(ROOT,)]


def test_rule_that_is_cut_allows_nothing(tmp_path: Path) -> None:  # F13
    start = "User-agent: *\nDisallow: /private\n"
    filler = "#" * (500 * 1024 - len(start) - 1 - len("Allow: /private")) + "\n"
    rules = f"{start}{filler}Allow: /private/only/this\n"
    web = {
        f"{ROOT}robots.txt": robots(rules),
        ROOT: page(BIRDS, ["/private/x"]),
        f"{ROOT}private/x": page(f"{BIRDS} private"),
    }
    log, _ = crawl(tmp_path / "c", web)
    assert "/private/x" not in [entry.target for entry in log]


def test_capital_sharp_s_leads_to_the_same_host(tmp_path: Path) -> None:  # F14
    log, _ = crawl(tmp_path / "c", {ROOT: page(BIRDS, ["http://stra\u1e9ee.example/", "http://stra\u00dfe.example/x"])})
    assert hosts(log) == {"a.example", "xn--strae-oqa.example"}
