"""`opilio lab serve` as a process: it prints its address, answers, adds faults, and logs when it is stopped."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opilio.lab.server.http import read_access_log
from opilio.lab.webs.web import WarcWeb

MAIN = "from opilio.cli.main import main; main()"


@contextmanager
def _served(*words: object) -> Iterator[str]:
    command = [sys.executable, "-c", MAIN, "lab", "serve", "--port", "0", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0


def _status(proxy: str, url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
    try:
        with opener.open(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_served_web_answers_as_a_proxy_and_logs(small_folder: Path, small_web: WarcWeb, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with _served(small_folder, "--no-faults", "--log", log) as proxy:
        assert _status(proxy, small_web.urls[0]) == 200
        assert _status(proxy, "http://nowhere.example/") == 404
    assert [access.status for access in read_access_log(log)] == [200, 404]


def test_faults_can_be_added_to_every_host(small_folder: Path, small_web: WarcWeb) -> None:
    url = next(u for u in small_web.urls if not u.endswith("/robots.txt"))
    with _served(small_folder, "--no-faults", "--errors", 1) as proxy:
        assert [_status(proxy, url) for _ in range(2)] == [503, 503]
