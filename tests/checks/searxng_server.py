"""A real SearXNG server on loopback, in a process and an environment of its own (`make test` installs it).

All engines that come with it are off; three of its generic ones (two that read JSON, one that reads a page of results)
ask a double on loopback, and so does one that always fails.
"""

import json
import os
import random
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError

import pytest

from checks.search_doubles import SearchDouble

VARIABLE = "OPILIO_SEARXNG"  # the Python that has it; set by `make test`, which may then not go without
ROOT = Path(__file__).parents[2]
STARTS_S = 120.0


def searxng_python() -> str:
    """The Python that SearXNG is installed in; skips where it is not."""
    named = os.environ.get(VARIABLE)
    python = Path(named) if named else ROOT / ".searxng" / "bin" / "python"
    if not named and not python.exists():
        pytest.skip("SearXNG is not installed; make test does it")
    return str(python)


@contextmanager
def searxng(folder: Path, double: SearchDouble) -> Iterator[str]:
    """The server's address while it runs."""
    port = _free_port()
    settings = folder / "settings.yml"
    settings.write_text(json.dumps(_settings(port, double.url)), encoding="utf-8")  # JSON is YAML
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "SEARXNG_SETTINGS_PATH": str(settings),
        "SEARXNG_DISABLE_ETC_SETTINGS": "1",
    }
    with (folder / "searxng.log").open("w+") as log:
        process = subprocess.Popen(
            [searxng_python(), "-m", "searx.webapp"], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, folder / "searxng.log")
            yield url
        finally:
            process.terminate()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    end = time.monotonic() + STARTS_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"SearXNG does not answer: {log.read_text()}")


def _free_port() -> int:
    """A port that stays free until the server takes it: below the range of ephemeral ports."""
    for port in random.sample(range(10_000, 32_000), 1_000):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def _settings(port: int, double: str) -> dict[str, object]:
    common = {"categories": "general", "enable_http": True, "paging": True, "disabled": False, "inactive": False}
    reads_json = {
        "engine": "json_engine",
        "results_query": "hits/items",
        "url_query": "link",
        "title_query": "title",
        "content_query": "snip",  # without a content query an engine is dropped silently
    }
    reads_html = {
        "engine": "xpath",
        "results_xpath": '//div[@class="r"]',
        "url_xpath": ".//h3/a/@href",
        "title_xpath": ".//h3/a",
        "content_xpath": ".//p",
    }
    engines = [
        {
            **common,
            **reads,
            "name": name,
            "shortcut": name[:2],
            "search_url": f"{double}/{place}?q={{query}}&p={{pageno}}",
        }
        for name, reads, place in (
            ("alpha", reads_json, "json/alpha"),
            ("beta", reads_json, "json/beta"),
            ("gamma", reads_html, "html/gamma"),
            ("broken", reads_json, "json/broken"),
        )
    ]
    return {
        "use_default_settings": {"engines": {"keep_only": []}},
        "general": {"instance_name": "seeds", "enable_metrics": False},
        "search": {"autocomplete": "", "favicon_resolver": "", "default_lang": "en", "formats": ["html", "json"]},
        "server": {
            "secret_key": "for this test only",
            "bind_address": "127.0.0.1",
            "port": port,
            "limiter": False,
            "public_instance": False,
            "image_proxy": False,
        },
        "outgoing": {"request_timeout": 60.0, "enable_http2": False},
        "plugins": {},  # one of them would ask the web for its rules
        "engines": engines,
    }
