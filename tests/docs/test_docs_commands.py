"""Every command of the docs runs, one page after the other, in an empty folder.

A small web served on loopback stands in for the live one: addresses in a block become addresses of that web, and
`opilio crawl` is sent through its proxy without pauses, for a few pages.
"""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.doc_blocks import blocks
from opilio.lab.server.server import LabWebServer
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUNNING = [page for page in PAGES if any(block.runs for block in blocks(page))]
SHAPE = WebShape(seed=3, pages=60, hosts=4, topics=1, slow_hosts=0, failing_hosts=0, traps=())
ADDRESS = re.compile(r"https?://(?!127\.)[\w.-]+\.(?:org|com|net|example)[^\s\"']*")
STAND_IN = """#!{python}
import os, sys
words = sys.argv[1:]
if words[:1] == ["crawl"]:
    words += ["--proxy", "{proxy}", "--quiet", "--workers", "0"]
    words += ["--set", "politeness.delay_s=0", "--set", "politeness.max_crawl_delay_s=0", "--set", "stop.pages=8"]
os.execv("{python}", ["{python}", "-c", "from opilio.cli.main import main; main()", *words])
"""


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """The proxy of a running web, and one of its addresses."""
    web = SyntheticWeb(SHAPE)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(LabWebServer(web).__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    (table,) = topic_tables(web.plan)
    seeds = table["seeds"]
    assert isinstance(seeds, list)
    yield server.proxy, seeds[0]["urls"][0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(server.__aexit__())
    loop.close()


def _environment(folder: Path, proxy: str) -> dict[str, str]:
    """A PATH on which our command is the stand-in, and beside it only the system's own."""
    tools = folder / "bin"
    tools.mkdir()
    command = tools / "opilio"
    command.write_text(STAND_IN.format(python=sys.executable, proxy=proxy), encoding="utf-8")
    command.chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.defpath}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize("page", RUNNING, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_of_a_page_run(page: Path, served: tuple[str, str], tmp_path: Path) -> None:
    proxy, address = served
    environment = _environment(tmp_path, proxy)
    folder = tmp_path / "here"
    folder.mkdir()
    for block in blocks(page):
        if block.mark == "file":
            (folder / block.text).write_text(ADDRESS.sub(address, block.body), encoding="utf-8")
        if block.runs:
            script = "set -eu\n" + ADDRESS.sub(address, block.body)
            done = subprocess.run(
                ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{block.body}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_block_that_is_not_run_says_why(page: Path) -> None:
    skipped = [block for block in blocks(page) if block.mark == "not run"]
    assert all(len(block.text.split()) > 2 for block in skipped)


def test_make_targets_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z]+)", text, re.MULTILINE))
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test"} <= named <= rules
