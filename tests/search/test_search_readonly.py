"""A collection in a folder that can't be written (another user's, a disc, a snapshot) is searched and served."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from checks.indexed import Sheet, store
from checks.page_server import Client, crawled
from checks.small_webs import COMMAND, one_line, opilio, plain
from opilio.search.indexer import rebuild_index, update_index

# A superuser may write anywhere; without this capability the bits of files bind it like everybody else.
BOUND = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.getuid() == 0 else []
COULD = not BOUND or (shutil.which("setpriv") and subprocess.call([*BOUND, "true"], stderr=subprocess.DEVNULL) == 0)
pytestmark = pytest.mark.skipif(not COULD, reason="a superuser who can't give up any power here")
WREN = Sheet(url="http://a.example/wren", title="The wren", text="A wren is a small bird.")
ROBIN = Sheet(url="http://b.example/robin", title="Robins", text="A robin is a bird.")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield store(tmp_path / "birds", [WREN])
    unlock(tmp_path / "birds")


def lock(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def unlock(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


def asked(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*BOUND, *COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=plain(), check=False)


def make_index(folder: Path) -> None:
    done = opilio("search", folder, "wren")
    assert done.returncode == 0, done.stderr


def test_index_is_searched_where_it_can_not_be_written(folder: Path) -> None:
    make_index(folder)
    lock(folder)
    before = sorted(folder.rglob("*"))
    done = asked("search", folder, "wren", "--json")
    assert done.stderr == ""
    assert [hit["url"] for hit in json.loads(done.stdout)["hits"]] == [WREN.url]
    similar = asked("search", "--like", folder, WREN.url)
    assert similar.returncode == 0, similar.stderr
    assert "index" not in asked("maintain", "verify", "--look-only", folder).stdout
    assert sorted(folder.rglob("*")) == before


def test_search_reports_pages_that_can_not_be_taken_in(folder: Path) -> None:
    make_index(folder)
    store(folder, [ROBIN])
    lock(folder)
    done = asked("search", folder, "bird")
    assert "1–1 of 1 page (" in done.stderr
    assert "the index lacks 1 page and is read-only here\n" in done.stderr


def test_search_says_in_one_line_that_no_index_can_be_made(folder: Path) -> None:
    lock(folder)
    done = asked("search", folder, "wren")
    assert done.returncode == 1
    assert "has no usable index, and its folder" in one_line(done)


def test_pages_search_what_can_be_searched_and_report_the_rest(folder: Path, tmp_path: Path) -> None:
    make_index(folder)
    bare = crawled(tmp_path / "bare")
    lock(folder)
    lock(bare)
    command = [*BOUND, *COMMAND, "serve", str(folder), str(bare), "--port", "0"]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=plain()) as server,
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().rstrip("/")
            assert address, log.read_text()
            client = Client(address)
            found = client.get("/search.json?q=bird").data
            subtopics = client.get("/c/bare/subtopics.json")
            detail = client.get(f"/c/bare/page.json?{urlencode({'url': 'http://h0.example/0.html'})}")
        finally:
            server.terminate()
            unlock(bare)
    assert [hit["url"] for hit in found["hits"]] == [WREN.url], (found, log.read_text())
    assert "bare: has no usable index" in found["notes"][0]
    assert subtopics.status == 503
    assert (detail.status, detail.data["similar"]) == (200, [])


def test_readers_of_the_collection_may_read_all_of_its_index(folder: Path) -> None:
    """The engine writes some of its files for its own user only."""
    make_index(folder)
    expected = stat.S_IMODE((folder / "crawl.db").stat().st_mode)
    assert {stat.S_IMODE(p.stat().st_mode) for p in (folder / "index").rglob("*") if p.is_file()} == {expected}


def test_label_reports_a_read_only_collection_in_one_line(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds")
    lock(folder)
    done = asked("label", folder, "http://h0.example/0.html", "--relevant")
    unlock(folder)
    assert done.returncode == 1
    assert "copy the folder to a place of your own" in one_line(done)


READER = """
import sys
from pathlib import Path
from opilio.core.errors import OpilioError
from opilio.search.searcher import Searcher

for _ in range(int(sys.argv[2])):
    try:
        Searcher([Path(sys.argv[1])]).search("a small singing bird")
    except OpilioError as error:
        print(error, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("writable", [False, True])
def test_readers_find_an_index_while_its_owner_changes_and_rebuilds_it(folder: Path, writable: bool) -> None:
    """Files appear and vanish while a reader opens them, and in a read-only folder it can take no lock against that."""
    if not (writable or BOUND):
        pytest.skip("owner and reader are the same user here")
    make_index(folder)
    if not writable:
        lock(folder)
    command = [*([] if writable else BOUND), sys.executable, "-c", READER, str(folder), "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=plain()) as reader:
        changes = 0
        while reader.poll() is None:
            changes += 1
            store(folder, [Sheet(url=f"http://a.example/{changes}", title="Wrens", text=f"Bird number {changes}.")])
            (update_index if changes % 3 else rebuild_index)(folder)
            if not writable:
                lock(folder)
        assert reader.stdout is not None
        assert (reader.stdout.read(), reader.returncode) == ("", 0)
    assert changes > 1
