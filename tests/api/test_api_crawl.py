"""`opilio.crawl()` and `opilio.acrawl()`: in a script, in a running loop, resumed, interrupted."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opilio
from checks.small_webs import TOPIC, SmallWeb, grid, page, plain, served
from opilio.api.crawling import build_tree
from opilio.core.events import BatchCommitted, CrawlStopped
from opilio.lab.server.server import LabWebServer

SEED = "http://h0.example/0.html"


def quick(server: LabWebServer, **more: object) -> dict[str, object]:
    """Settings of a quick crawl through the server."""
    return {"fetch": {"proxy": server.proxy}, "politeness.delay_s": 0.0, "engine.workers": 0, **more}


def test_crawl_creates_a_collection_and_resumes_it(tmp_path: Path) -> None:
    events: list[opilio.Event] = []
    with served(SmallWeb(grid(2, 10))) as server:
        first = opilio.crawl(
            TOPIC,
            seeds=[SEED],
            into=tmp_path / "c",
            pages=5,
            strategy="breadth",
            settings=quick(server),
            progress=False,
        )
        status = first.status
        second = opilio.crawl(
            into=str(tmp_path / "c"), pages=0, settings=quick(server), on_event=events.append, progress=False
        )
    assert (status.pages, status.strategy, status.stop_reason) == (5, "breadth", "page limit reached (5 pages)")
    assert (second.status.pages, second.status.stop_reason) == (20, "nothing left to fetch")
    assert first.status.pages == 20  # a view shows the current state
    committed = [event for event in events if isinstance(event, BatchCommitted)]
    assert sum(len(event.outcomes) for event in committed) == 15
    assert isinstance(events[-1], CrawlStopped)


def test_crawl_works_inside_of_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> tuple[int, int]:
        with served(SmallWeb(grid(1, 6))) as server:
            options: dict[str, Any] = {"seeds": SEED, "settings": quick(server), "progress": False}
            awaited = await opilio.acrawl(TOPIC, into=tmp_path / "a", **options)
            called = opilio.crawl(TOPIC, into=tmp_path / "b", **options)
        return awaited.status.pages, called.status.pages

    assert asyncio.run(cell()) == (6, 6)


def test_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    with served(SmallWeb(grid(1, 6))) as server:
        settings = quick(server, **{"engine.workers": 2})
        script.write_text(
            f"import opilio\nprint('start')\n"
            f"birds = opilio.crawl({TOPIC!r}, seeds={SEED!r}, into='c', settings={settings!r})\n"
            "print(birds.status.pages)\n"
        )
        done = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, env=plain(), capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout.split()) == (0, ["start", "6"]), done.stderr


@pytest.fixture
def _default_sigint() -> Iterator[None]:
    """Tests that a shell runs in the background inherit an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_default_sigint")
def test_interrupt_stops_cleanly_and_the_next_call_resumes(tmp_path: Path) -> None:
    def interrupt(event: opilio.Event) -> None:
        if isinstance(event, BatchCommitted) and not interrupted.is_set():
            interrupted.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupted = threading.Event()
    with served(SmallWeb(grid(4, 40)), slow=dict.fromkeys((f"h{n}.example" for n in range(4)), 0.01)) as server:
        settings = quick(server, **{"engine.batch": 1})
        with pytest.raises(KeyboardInterrupt):
            opilio.crawl(TOPIC, seeds=SEED, into=tmp_path / "c", settings=settings, on_event=interrupt, progress=False)
        stopped = opilio.open(tmp_path / "c").status
        resumed = opilio.crawl(into=tmp_path / "c", settings=settings, progress=False).status
    assert (stopped.state, stopped.stop_reason, stopped.pages < 160) == ("stopped", "interrupted", True)
    assert resumed.pages == 160


def test_cancelled_crawl_keeps_what_was_committed(tmp_path: Path) -> None:
    async def main() -> None:
        committed = asyncio.Event()
        with served(SmallWeb(grid(4, 40)), slow=dict.fromkeys((f"h{n}.example" for n in range(4)), 0.01)) as server:
            options: dict[str, Any] = {"settings": quick(server, **{"engine.batch": 1}), "progress": False}
            run = asyncio.create_task(
                opilio.acrawl(TOPIC, seeds=SEED, into=tmp_path / "c", on_event=lambda _: committed.set(), **options)
            )
            await committed.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert 0 < opilio.open(tmp_path / "c").status.pages < 160
            resumed = await opilio.acrawl(into=tmp_path / "c", **options)
        assert resumed.status.pages == 160

    asyncio.run(main())


def test_arguments_become_settings() -> None:
    tree = build_tree("wrens", {SEED: 2}, None, 50, "breadth", {"stop.minutes": 1.5, "topic": {"language": "german"}})
    assert tree == {
        "topic": {"name": "wrens", "language": "german"},
        "seeds": {"urls": {SEED: 2}},
        "stop": {"fetches": 50, "minutes": 1.5, "pages": 0},
        "strategy": "breadth",
    }
    assert build_tree(None, None, 7, 50, None, None) == {"stop": {"pages": 7, "fetches": 50}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"politeness.delay": 1}, "settings: unknown key 'politeness.delay' \\(did you mean 'delay_s'\\?\\)"),
        ({"stop": {"pages": "many"}}, "settings: stop.pages: expected whole number"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(opilio.ConfigError, match=message):
        opilio.crawl(TOPIC, seeds=SEED, into=tmp_path / "c", settings=settings)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_crawl_come_back_to_the_caller(tmp_path: Path) -> None:
    def fail(event: opilio.Event) -> None:
        raise ZeroDivisionError(event.at)

    with pytest.raises(opilio.ConfigError, match="not a collection"):
        opilio.crawl(into=tmp_path / "missing")
    with served(SmallWeb({SEED: page()})) as server, pytest.raises(ZeroDivisionError):
        opilio.crawl(TOPIC, seeds=SEED, into=tmp_path / "c", settings=quick(server), on_event=fail, progress=False)


THAI = {
    "on1": "ไดโนเสาร์เป็นสัตว์เลื้อยคลานที่สูญพันธุ์ไปแล้ว นักวิทยาศาสตร์ศึกษาฟอสซิลของไดโนเสาร์กินเนื้อ",
    "on2": "ฟอสซิลกระดูกของไดโนเสาร์คอยาวพบในภาคอีสาน ไดโนเสาร์กินพืชตัวใหญ่ที่สุดในประเทศไทย",
    "off1": "ธนาคารขึ้นอัตราดอกเบี้ยเงินกู้ ลูกค้าต้องชำระหนี้ตามสัญญาทุกเดือน",
    "off2": "สูตรแกงเขียวหวานไก่ ใส่กะทิและใบโหระพา เสิร์ฟพร้อมข้าวสวยร้อน",
}
TAIWAN = {
    "on1": "恐龍是已經滅絕的爬行動物，科學家研究肉食恐龍的化石。",
    "on2": "在沙漠裡發現了長頸恐龍的化石，這是最大的草食恐龍。",
    "off1": "銀行提高貸款利率，客戶每個月必須依照契約償還債務。",
    "off2": "咖哩雞的食譜，加入椰奶和羅勒，搭配熱飯上桌。",
}


@pytest.mark.parametrize(
    ("topic", "texts"), [("ฟอสซิลไดโนเสาร์", THAI), ("恐龍化石", TAIWAN)], ids=["Thai", "traditional Chinese"]
)
def test_topic_in_a_script_without_spaces_tells_pages_apart(tmp_path: Path, topic: str, texts: dict[str, str]) -> None:
    urls = {name: f"http://h0.example/{name}.html" for name in texts}
    web = {url: page(texts[name], urls.values(), title=texts[name].split()[0]) for name, url in urls.items()}
    with served(SmallWeb(web)) as server:
        found = opilio.crawl(topic, seeds=[urls["on1"]], into=tmp_path / "c", settings=quick(server), progress=False)
        scores = {one.url.rpartition("/")[2].removesuffix(".html"): one.score for one in found.pages()}
    assert min(scores["on1"], scores["on2"]) > max(scores["off1"], scores["off2"])
    assert scores["on2"] > 0.5 > scores["off2"]
