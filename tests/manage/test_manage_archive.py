"""Export as CDXJ and WACZ: the records are found by the index, and the reference validator accepts the file."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from checks.documents import docx
from checks.live_site import DOCX
from checks.small_webs import BIRDS, SmallWeb, crawl, opilio, page, redirect, served, settings_for, word
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.export import export, export_to_file
from opilio.manage.formats.archive import surt_key
from opilio.store.page_selection import PageFilter
from opilio.store.warc import parse_response

ROOT = "http://www.a.example/"
WEB = {
    ROOT: page(BIRDS, ["/Wren?b=2&a=1", "/owl/", "/moved", "/gone", "/nest.docx", "/absent"], title="Birds"),
    ROOT + "Wren?b=2&a=1": page(f"{BIRDS} {word(1)}", title="Wren, “small”"),
    ROOT + "owl/": page(f"{BIRDS} {word(2)} {word(3)}", title=""),
    # A document, which is stored with its conversion to HTML.
    ROOT + "nest.docx": RecordedResponse(200, (("Content-Type", DOCX),), docx()),
}
# Redirects, in the archive if they lead to a page of it.
MOVED = {
    ROOT + "moved": redirect("/again"),
    ROOT + "again": redirect("/owl/"),
    ROOT + "gone": redirect("/absent"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive") / "birds"
    with served(SmallWeb(WEB | MOVED)) as server:
        crawl(folder, settings_for(server, [ROOT], strategy="s0", engine={"connections": 1}))
    return folder


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    path = folder.parent / "birds.wacz"
    assert export_to_file(folder, path, "wacz", PageFilter()) == len(WEB)
    return path


def index_of(data: bytes) -> dict[str, dict[str, str]]:
    lines = data.splitlines()
    assert lines == sorted(lines)
    return {values["url"]: values for values in (json.loads(line.split(b" ", 2)[2]) for line in lines)}


def test_the_index_finds_the_records_of_the_collection(folder: Path) -> None:
    out = io.BytesIO()
    assert export(folder, "cdxj", PageFilter(), out) == len(WEB)
    for url, values in index_of(out.getvalue()).items():
        start, length = int(values["offset"]), int(values["length"])
        stored = parse_response((folder / values["filename"]).read_bytes()[start : start + length])
        assert (stored.url, stored.body) == (url, WEB[url].body)
        assert (values["status"], values["mime"]) == ("200", DOCX if url.endswith("docx") else "text/html")


def test_an_archive_holds_records_index_pages_and_hashes(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        warc = opened.read("archive/data.warc.gz")
        index = index_of(gzip.decompress(opened.read("indexes/index.cdx.gz")))
        head, *pages = [json.loads(line) for line in opened.read("pages/pages.jsonl").splitlines()]
        manifest = json.loads(opened.read("datapackage.json"))
        for resource in manifest["resources"]:
            data = opened.read(resource["path"])
            assert (resource["bytes"], resource["hash"]) == (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in opened.infolist())
    assert (head["format"], manifest["title"]) == ("json-pages-1.0", "birds")
    assert {entry["url"] for entry in pages} == set(WEB)
    assert set(index) == {*WEB, f"{ROOT}moved", f"{ROOT}again"}
    for url, values in index.items():
        start = int(values["offset"])
        recorded = parse_response(warc[start : start + int(values["length"])])
        wanted = (WEB | MOVED)[url]
        assert (recorded.status, recorded.body) == (wanted.status, wanted.body)


def test_the_same_collection_gives_the_same_archive(folder: Path, archive: Path) -> None:
    out = io.BytesIO()
    export(folder, "wacz", PageFilter(), out)
    assert out.getvalue() == archive.read_bytes()


def test_the_command_writes_an_archive(folder: Path, tmp_path: Path) -> None:
    ended = opilio("export", folder, "--format", "wacz", "--out", tmp_path / "x.wacz")
    assert (ended.returncode, ended.stderr.strip()) == (0, f"4 pages written to {tmp_path / 'x.wacz'}")


@pytest.mark.skipif(find_spec("wacz") is None, reason="wacz is not installed")
def test_the_reference_validator_accepts_the_archive(archive: Path) -> None:
    # In a process of its own: it leaves files open.
    program = "import sys; from wacz.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", program, "validate", "-f", archive],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, "the passed WACZ is valid" in ended.stdout) == (0, True), ended.stdout + ended.stderr


# Run by the Python of pywb: adds an archive to a new collection and prints what it replays for each URL.
REPLAY = """
import json, os, subprocess, sys

archive, folder, *urls = sys.argv[1:]
os.chdir(folder)
manage = [sys.executable, "-c", "import sys; from pywb.manager.manager import main; main(sys.argv[1:])"]
for arguments in (["init", "c"], ["add", "--unpack-wacz", "c", archive]):
    subprocess.run([*manage, *arguments], check=True, capture_output=True)
from pywb.apps.frontendapp import FrontEndApp
from werkzeug.test import Client

client = Client(FrontEndApp())
replayed = {url: client.get(f"/c/id_/{url}") for url in urls}
def told(answer):
    return [answer.status_code, answer.headers.get("Location", ""), answer.get_data().decode("latin-1")]

print(json.dumps({url: told(answer) for url, answer in replayed.items()}))
"""


@pytest.mark.skipif("OPILIO_PYWB" not in os.environ, reason="pywb is not installed; 'make test' installs it")
def test_pywb_replays_the_archive(archive: Path, tmp_path: Path) -> None:
    absent = f"{ROOT}absent"
    ended = subprocess.run(
        [os.environ["OPILIO_PYWB"], "-c", REPLAY, archive, tmp_path, *WEB, f"{ROOT}moved", absent],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    replayed = json.loads(ended.stdout.splitlines()[-1])
    assert replayed.pop(absent)[0] == 404
    assert replayed.pop(f"{ROOT}moved") == [MOVED[f"{ROOT}moved"].status, f"{ROOT}again", ""]
    assert replayed == {url: [200, "", recorded.body.decode("latin-1")] for url, recorded in WEB.items()}


@pytest.mark.parametrize("url", [*WEB, "https://sub.a.example:8443/a/b?x", "http://a.example/a%20b", "http://1.2.3.4/"])
def test_keys_are_those_of_other_tools(url: str) -> None:
    assert surt_key(url) == pytest.importorskip("surt").surt(url)
