"""Makes docs/screenshots: every page of `opilio serve`, light, dark and on a phone, during a crawl of a synthetic web.

python scripts/make_screenshots.py FOLDER        needs Debian's chromium, playwright and Pillow
"""

import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tomli_w
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import opilio
from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web
from opilio.lab.synthetic.changing import HostFaults
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables
from opilio.manage.status import collection_status
from opilio.store.collection import collection_exists

SHAPE = WebShape(seed=7, pages=9000, hosts=40, topics=3, topical_share=0.6, slow_hosts=0, failing_hosts=1)
COMMAND = (sys.executable, "-m", "opilio")
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1120, "height": 880}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1120, "height": 880}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 760}},
}
COLOURS = 128
SCALE = 0.75
TIMEOUT_MS = 180_000  # of a page; other work may load the machine


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    result = topic_tables(SyntheticWeb(SHAPE).plan)[0]
    with tempfile.TemporaryDirectory() as place, _web() as proxy, ExitStack() as children:
        home = Path(place)
        for name, strategy in (("birds-breadth", "breadth"), ("birds-agents", "s3-agents")):
            children.enter_context(_ending(_crawl(home, name, strategy, proxy, result))).wait()
        children.enter_context(_ending(_crawl(home, "birds", "opilio", proxy, result)))
        while not collection_exists(home / "birds") or collection_status(home / "birds").pages < 250:
            time.sleep(0.2)
        _annotate(home / "birds")
        served = [str(home / name) for name in ("birds", "birds-breadth", "birds-agents")]
        server = subprocess.Popen([*COMMAND, "serve", *served, "--port", "0"], stdout=subprocess.PIPE, text=True)
        children.enter_context(_ending(server))
        assert server.stdout is not None
        _take(server.stdout.readline().strip().rstrip("/"), out)


def _annotate(folder: Path) -> None:
    """Tags, a note, a list and a saved search, as a curator has them."""
    with opilio.open(folder) as collection:
        urls = [page.url for page in collection.pages(relevant=True)][:5]
        collection.lists.add("to cite", *urls)
        collection.tag(urls[0], "overview", "nesting")
        collection.tag(urls[1], "nesting")
        collection.note(urls[0], "Quote the second paragraph; compare with the survey.")
        collection.searches.save("nests of birds", "bird nest")


@contextmanager
def _ending(process: "subprocess.Popen[Any]") -> "Iterator[subprocess.Popen[Any]]":
    """A process that does not outlive us."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _web() -> Iterator[str]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()


def _serve(channel: Connection) -> None:
    def announce(server: LabWebServer) -> None:
        channel.send(server.proxy)

    serve_synthetic_web(SHAPE, LabServerConfig(), announce, every=HostFaults(name="*", delay_s=0.25))


def _crawl(home: Path, name: str, strategy: str, proxy: str, result: dict[str, Any]) -> "subprocess.Popen[bytes]":
    tree = {
        "strategy": strategy,
        "topic": {
            "name": "Birds and their nests",
            "description": result["description"],
            "keywords": result["keywords"],
        },
        "seeds": {"urls": result["seeds"][0]["urls"]},
        "politeness": {"delay_s": 0.0, "max_crawl_delay_s": 0.2},
        "engine": {"connections": 6},
        "fetch": {"proxy": proxy},
        "stop": {"pages": 20_000 if strategy == "opilio" else 500},
    }
    path = home / f"{name}.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return subprocess.Popen([*COMMAND, "crawl", "--config", str(path), "--into", str(home / name), "--quiet"])


def _json(page: Page, url: str) -> dict[str, Any]:
    answer = page.goto(url)
    assert answer is not None, url
    return dict(answer.json())


def _take(base: str, out: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        # The index takes in what is there.
        while not _json(page, f"{base}/c/birds-breadth/subtopics.json")["subtopics"]:
            page.wait_for_timeout(500)
        url = _json(page, f"{base}/c/birds/pages.json?sort=newest")["pages"][5]["url"]
        host = _json(page, f"{base}/c/birds/hosts.json")["hosts"][0]["host"]
        for mode, options in MODES.items():
            context = browser.new_context(**options)
            context.set_default_timeout(TIMEOUT_MS)
            shown = context.new_page()
            for name, path in _pages(url, host).items():
                shown.goto(f"{base}{path}", wait_until="domcontentloaded")
                if name == "topic-preview":
                    shown.fill("#t-keywords", "heron\nkestrel\nnest = 0.5")
                    shown.click('button[value="preview"] >> nth=0')
                    shown.wait_for_selector("#preview")
                if name == "crawl":
                    shown.wait_for_function(
                        "() => Number(document.querySelector('[data-live]').dataset.updates ?? 0) >= 1"
                    )
                _shoot(shown, out / f"{name}-{mode}.png")
            context.close()
        browser.close()


def _pages(url: str, host: str) -> dict[str, str]:
    own: tuple[str, ...] = (
        "pages",
        "review",
        "lists",
        "manage",
        "trial",
        "subtopics",
        "topic",
        "queue",
        "hosts",
        "graph",
    )
    own += ("seeds", "errors", "events", "lists")
    found = {"home": "/", "search": "/search?q=bird+nest", "runs": "/runs", "new": "/new", "help": "/help"}
    found |= {"crawl": "/c/birds", "why": f"/c/birds/page?url={quote(url, safe='')}"}
    found |= {"host": f"/c/birds/host?host={host}", "topic-preview": "/c/birds/topic"}
    found |= {"copy": f"/c/birds/copy?url={quote(url, safe='')}", "new-all": "/new?all=1"}
    found |= {"agents": "/c/birds-agents/agents", "list": "/c/birds/list?list=to+cite"}
    return found | {name: f"/c/birds/{name}" for name in own} | {"subtopics": "/c/birds-breadth/subtopics"}


def _shoot(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    with Image.open(path) as image:
        size = (int(image.width * SCALE), int(image.height * SCALE))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    few = small.quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
