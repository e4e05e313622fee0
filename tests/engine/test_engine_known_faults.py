"""Faults of processes, clocks, files and forms that an early version (7e1e3cc) did not stand; run as those in
`test_engine_known_attacks`.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from checks.killing import children, is_worker
from checks.other_versions import COMMAND, ROOT, crawl, crawl_command, query, run, running
from checks.small_webs import BIRDS, SmallWeb, grid, least_gap, page, robots, served, word

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.kill]

SEED = "http://h0.example/0.html"
PATIENCE_S = 100.0  # for a crawl of seconds; one whose clock is set back may wait for an hour
ORPHAN_PATIENCE_S = 20.0


def until(is_true: Callable[[], bool], process: "subprocess.Popen[str]") -> bool:
    """Wait for something that a running command does; False if it ends before, or does nothing for too long."""
    ends_at = time.monotonic() + PATIENCE_S
    while not is_true():
        if process.poll() is not None or time.monotonic() > ends_at:
            return False
        time.sleep(0.01)
    return True


LOCAL_SETTINGS = (
    "[fetch]\nallow_private = true",
    '[fetch]\nproxy = "http://127.0.0.1:9"',
    '[fetch.resolve]\n"a.example" = "127.0.0.1"',
    '[topic]\nexamples = ["FILE"]',
)


def test_form_for_new_crawls_refuses_local_settings(tmp_path: Path) -> None:  # F5
    secret = tmp_path / "secret.html"
    secret.write_text("<p>heliotrope heliotrope", encoding="utf-8")
    with serving("--home", tmp_path) as (address, _):

        def status(toml: str) -> int:
            form = {"topic": "wrens", "seeds": ROOT, "toml": toml.replace("FILE", str(secret)), "do": "check"}
            headers = {"Content-Type": "application/json"}
            try:
                request = urllib.request.Request(f"{address}new", json.dumps(form).encode(), headers)
                with urllib.request.urlopen(request) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert status("[stop]\npages = 5") == 200
        assert [status(toml) for toml in LOCAL_SETTINGS] == [400] * len(LOCAL_SETTINGS)


@contextmanager
def serving(*options: object) -> Iterator[tuple[str, int]]:
    """`opilio serve` on loopback; the address and the port."""
    with running([*COMMAND, "serve", *map(str, options), "--port", "0"]) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        yield address, int(urlsplit(address).port or 0)


def status_of(port: int, *headers: str) -> int:
    """The status of a request whose headers are sent as they are."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall("\r\n".join(["GET / HTTP/1.1", *headers, "Connection: close", "", ""]).encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_host_header_that_begins_like_an_address_is_refused(tmp_path: Path) -> None:  # F14
    with serving("--home", tmp_path) as (_, port):
        assert status_of(port, f"Host: 127.0.0.1:{port}") == 200
        assert status_of(port, "Host: [::1].evil") in (400, 421)


def test_second_host_header_is_refused(tmp_path: Path) -> None:  # F14
    """The early version fails if httptools is installed, as with its `lab` feature: uvicorn uses it to read headers."""
    with serving("--home", tmp_path) as (_, port):
        assert status_of(port, f"Host: 127.0.0.1:{port}") == 200
        assert status_of(port, f"Host: 127.0.0.1:{port}", "Host: evil.example") in (400, 421)


def test_wrong_tokens_do_not_lock_out_the_right_one(tmp_path: Path) -> None:  # F14
    token = "the-right-token-of-this-server"
    with serving("--home", tmp_path, "--token", token) as (_, port):
        host = f"Host: 127.0.0.1:{port}"
        wrong = {status_of(port, host, f"Authorization: Bearer wrong-{number}") for number in range(40)}
        assert wrong == {401, 429}
        assert status_of(port, host, f"Authorization: Bearer {token}") == 200


def test_full_width_formula_is_text_in_csv(tmp_path: Path) -> None:  # F14
    crawl(tmp_path / "c", {ROOT: page(BIRDS, title="\uff1d1+1")})
    assert ",'\uff1d1+1," in run("export", tmp_path / "c", "--format", "csv").stdout


def test_dying_workers_lose_no_page(tmp_path: Path) -> None:  # F6
    web = grid(hosts=8, pages=60)
    kills = 8

    def stored() -> int:
        return sum(count for (count,) in query(tmp_path / "c", "SELECT count(*) FROM page"))

    with served(SmallWeb(web)) as server, running(crawl_command(tmp_path / "c", server.proxy, [SEED])) as process:
        for number in range(kills):
            # So many pages later, no page is hit twice.
            assert until(lambda least=(number + 1) * 40: stored() >= least, process)  # type: ignore[misc]
            for pid in filter(is_worker, children(process.pid)):
                os.kill(pid, signal.SIGKILL)
        assert process.wait() == 0
    assert stored() == len(web)


def test_busy_worker_ends_when_the_engine_is_killed(tmp_path: Path) -> None:  # F7
    """The title keeps a worker of the early version busy for a minute, the text one of this version for a second."""
    title, text = "404" + "-" * 90_000 + "x", " ".join(map(word, range(120_000)))
    web = {ROOT: page(BIRDS, ["/busy"]), f"{ROOT}busy": page(text, title=title)}
    with (
        served(SmallWeb(web)) as server,
        running(crawl_command(tmp_path / "c", server.proxy)) as process,
    ):
        # The worker has read the first page, so it is not starting any more.
        assert until(lambda: any(entry.target == "/busy" for entry in server.log), process)
        workers = list(filter(is_worker, children(process.pid)))
        before = sum(map(cpu_ticks, workers))
        assert until(lambda: sum(map(cpu_ticks, workers)) > before + 20, process)
        process.kill()
        process.wait()
        left = wait_for_end(workers)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def cpu_ticks(pid: int) -> int:
    """Processor time of a process, in hundredths of a second; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def wait_for_end(pids: list[int]) -> list[int]:
    """The processes that have not ended after a while."""
    ends_at = time.monotonic() + ORPHAN_PATIENCE_S
    while (alive := [pid for pid in pids if cpu_ticks(pid)]) and time.monotonic() < ends_at:
        time.sleep(0.02)
    return alive


# Python runs this file when it starts: the system's clock is set as often as a file has bytes.
CLOCK = """
import os, time
real, path, by_s = time.time, os.environ["TEST_CLOCK_FILE"], float(os.environ["TEST_CLOCK_BY_S"])
time.time = lambda: real() + by_s * os.path.getsize(path)
"""


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_clock_that_is_set_breaks_no_pause_and_ends_no_crawl(tmp_path: Path, by_s: float) -> None:  # F9
    delay_s, web, times = 0.3, grid(hosts=2, pages=12), 8
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    (tmp_path / "times").touch()
    environment = {
        "PYTHONPATH": str(tmp_path),
        "TEST_CLOCK_FILE": str(tmp_path / "times"),
        "TEST_CLOCK_BY_S": str(by_s),
    }
    with (
        served(SmallWeb(web)) as server,
        running(
            crawl_command(tmp_path / "c", server.proxy, [SEED], f"politeness.delay_s={delay_s}"), **environment
        ) as process,
    ):
        for number in range(times):
            assert until(lambda least=5 + 2 * number: len(server.log) > least, process)  # type: ignore[misc]
            with (tmp_path / "times").open("a") as file:
                file.write("x")
        assert process.wait(PATIENCE_S) == 0
        assert least_gap(server.log) >= delay_s
    assert query(tmp_path / "c", "SELECT count(*) FROM page") == [(len(web),)]


@pytest.mark.parametrize("place", [("links", "columns"), ("robots", "rules"), ("snapshot", "state")])
def test_changed_byte_is_found_and_gives_no_traceback(tmp_path: Path, place: tuple[str, str]) -> None:  # F11
    table, column = place
    folder, rules = tmp_path / "c", robots("User-agent: *\nDisallow: /private/wrens\n")
    crawl(folder, {**grid(hosts=1, pages=12), "http://h0.example/robots.txt": rules}, SEED)
    verify = ["maintain", "verify"] if run("maintain", "--help").returncode == 0 else ["verify"]
    assert run(*verify, folder).returncode == 0
    flip_byte(folder / "crawl.db", f"SELECT {column} FROM {table} ORDER BY length({column}) DESC LIMIT 1")
    found = run(*verify, folder)
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    again = run("crawl", "--into", folder, "--quiet")
    assert "Traceback" not in again.stderr
    assert "unexpected" not in again.stderr


def flip_byte(database: Path, sql: str) -> None:
    """Change one byte of a value in the file of a database."""
    with closing(sqlite3.connect(database)) as connection:
        ((value,),) = connection.execute(sql).fetchall()
    data = bytearray(database.read_bytes())
    part = value[8:24]
    assert part in data
    data[data.index(part)] ^= 0xFF
    database.write_bytes(data)
