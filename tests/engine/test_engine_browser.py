"""Real Chromium renders pages that need JavaScript; its requests are as polite as those of the fetcher."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec
import pytest

from checks.live_site import needs_chromium
from checks.small_webs import BIRDS, SmallWeb, crawl, page, robots, rows, served, settings_for, stored, word
from opilio.core.errors import ConfigError
from opilio.core.records import FetchResult
from opilio.engine.rendering import HostHistory
from opilio.fetch.browser import ChromiumBrowser, find_chromium
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.server import LabWebServer
from opilio.manage.status import collection_status
from opilio.manage.why import why
from opilio.store.warc import read_record

ROOT = "http://birds.example/"
APP = "http://app.example/"
SHELL = RecordedResponse(
    200,
    (("Content-Type", "text/html"), ("Content-Security-Policy", "default-src 'none'")),
    b"<html><head><title>Birds</title></head><body><div id=root></div><img src=/bird.png>"
    b"<noscript>Please enable JavaScript.</noscript><script src=/app.js></script></body></html>",
)
SCRIPT = """
const root = document.getElementById("root");
const show = async (name) => {
  const answer = await fetch("/api/" + name + ".json");
  root.insertAdjacentHTML("beforeend", (await answer.json()).html);
};
for (const url of ["/api/private.json", "http://169.254.169.254/latest", "http://127.0.0.1:9/x"])
  fetch(url).then((r) => { if (r.ok) root.insertAdjacentHTML("beforeend", "<p>leaked"); }).catch(() => {});
fetch("/api/post", {method: "POST", body: "x"}).catch(() => {});
const name = location.pathname.slice(1) || "home";
show(name).then(() => {
  if (name === "feed") {
    let next = 2;
    addEventListener("scroll", () => { if (next < 4) show("feed" + next++); });
  }
  const more = document.querySelector("button");
  if (more) more.addEventListener("click", () => { more.remove(); show("more"); });
  if (name === "moved") location.href = "/target";
});
"""


def data(html: str) -> RecordedResponse:
    return RecordedResponse(200, (("Content-Type", "application/json"),), f'{{"html": "{html}"}}'.encode())


def items(*names: str) -> str:
    return "".join(f"<p>{BIRDS} {word(hash_of(name))} <a href='/{name}'>{name}</a></p>" for name in names)


def hash_of(name: str) -> int:
    return sum(map(ord, name))


NAMES = ("wren", "owl", "feed", "moved", "shop")
WEB: dict[str, RecordedResponse] = {
    ROOT: page(BIRDS, [APP]),
    APP: SHELL,
    f"{APP}robots.txt": robots("User-agent: *\nDisallow: /api/private.json\n"),
    f"{APP}app.js": RecordedResponse(200, (("Content-Type", "text/javascript"),), SCRIPT.encode()),
    f"{APP}api/private.json": data("<p>private"),
    f"{APP}api/home.json": data(items(*NAMES)),
    f"{APP}api/wren.json": data(items("wren")),
    f"{APP}api/owl.json": data(items("owl")),
    f"{APP}api/moved.json": data(items("moved")),
    f"{APP}api/shop.json": data(items("shop") + "<button>Load more</button>"),
    f"{APP}api/more.json": data(items("extra")),
    f"{APP}api/feed.json": data(items("feed") + "<div style='height: 3000px'></div>"),
    f"{APP}api/feed2.json": data(items("second") + "<div style='height: 3000px'></div>"),
    f"{APP}api/feed3.json": data(items("third")),
    **{f"{APP}{name}": SHELL for name in NAMES},
}


@pytest.fixture(scope="module")
def web() -> SmallWeb:
    needs_chromium()
    return SmallWeb(WEB)


@pytest.fixture(scope="module")
def rendered(web: SmallWeb, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LabWebServer]:
    folder = tmp_path_factory.mktemp("browser") / "c"
    with served(web) as server:
        crawl(folder, settings_for(server, [ROOT], browser={"on": True, "timeout_s": 120.0}))
    return folder, server


def test_pages_that_only_scripts_make_are_found(rendered: tuple[Path, LabWebServer]) -> None:
    folder, _ = rendered
    pages = dict(rows(folder, "SELECT url, rendered FROM page WHERE duplicate_of = 0"))
    assert {APP, f"{APP}wren", f"{APP}owl", f"{APP}feed"} <= set(pages)
    assert pages[ROOT] == 0 and pages[f"{APP}wren"] == 1
    explained = why(folder, f"{APP}wren").page
    assert explained is not None and explained.rendered


def test_infinite_scroll_load_more_and_script_redirects_are_followed(rendered: tuple[Path, LabWebServer]) -> None:
    known = {url for (url,) in rows(rendered[0], "SELECT url FROM frontier_url")}
    assert {f"{APP}second", f"{APP}third", f"{APP}extra", f"{APP}target"} <= known


def test_requests_of_the_browser_obey_robots_and_the_address_guard(rendered: tuple[Path, LabWebServer]) -> None:
    _, server = rendered
    asked = [entry.target for entry in server.log if entry.host == "app.example"]
    assert asked[0] == "/robots.txt" and "/api/private.json" not in asked
    assert not {"/bird.png", "/api/post"} & set(asked)
    assert asked.count("/app.js") == 1
    assert {entry.host for entry in server.log} <= {"app.example", "birds.example"}
    # The response that was fetched is the page: it is not requested again.
    assert asked.count("/wren") == 1


class Datagrams(asyncio.DatagramProtocol):
    """Counts what arrives."""

    def __init__(self) -> None:
        self.received = 0
        self.arrived = asyncio.Event()

    def datagram_received(self, data: bytes, address: object) -> None:
        del data, address
        self.received += 1
        self.arrived.set()


def test_page_sends_nothing_past_the_fetcher() -> None:
    """WebRTC asks the servers of a page over UDP, and new windows have no frame when they are requested."""
    needs_chromium()

    async def start() -> tuple[int, bytes]:
        transport, counter = await asyncio.get_running_loop().create_datagram_endpoint(
            Datagrams, local_addr=("127.0.0.1", 0)
        )
        port = transport.get_extra_info("sockname")[1]
        script = f"""
            const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
            peer.createDataChannel("wren");
            peer.onicegatheringstatechange = () => peer.iceGatheringState === "complete" && fetch("/complete");
            fetch("/wait").catch(() => {{}});
            peer.createOffer().then((offer) => peer.setLocalDescription(offer));
            open("/window");
        """

        async def load(url: str, kind: str) -> None:
            del kind
            if url.endswith("/complete"):
                counter.arrived.set()
            await counter.arrived.wait()

        html = f"<p>{BIRDS}<script>{script}</script>".encode()
        browser = ChromiumBrowser(find_chromium(), "Opilio/test")
        try:
            fetched = FetchResult(url="https://birds.example/", status=200, headers=(("Content-Type", "text/html"),))
            dom = await browser.render(msgspec.structs.replace(fetched, body=html), load)
            return counter.received, dom
        finally:
            await browser.close()
            transport.close()

    datagrams, dom = asyncio.run(start())
    assert BIRDS.encode() in dom and b'<a href="https://birds.example/window">' in dom
    assert datagrams == 0


def test_dom_is_stored_beside_the_response(rendered: tuple[Path, LabWebServer]) -> None:
    ((warc, offset, length),) = rows(rendered[0], "SELECT warc, offset, length FROM page WHERE url = ?", f"{APP}wren")
    found = read_record(rendered[0], warc, offset, length)
    assert found.body == SHELL.body
    assert b"root" in found.converted and b"/wren" in found.converted and b"leaked" not in found.converted


def test_status_says_what_rendering_brought(rendered: tuple[Path, LabWebServer]) -> None:
    status = collection_status(rendered[0])
    assert status.rendered >= 5 and status.rendered_relevant > 0


def test_plain_crawl_does_not_start_a_browser(web: SmallWeb, tmp_path: Path) -> None:
    with served(web) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    assert set(stored(tmp_path / "c")) == {ROOT, APP}
    assert "/app.js" not in [entry.target for entry in server.log]


def test_plain_crawl_does_the_same_work_with_and_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are counted, not time: the work of a page must not depend on what is installed."""

    def count_calls(name: str) -> tuple[Counter[str], list[str]]:
        calls = Counter[str]()

        def count(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and "/opilio/parse/" in frame.f_code.co_filename:
                calls[frame.f_code.co_qualname] += 1

        with served(SmallWeb(WEB)) as server:
            sys.setprofile(count)
            try:
                crawl(tmp_path / name, settings_for(server, [ROOT]))
            finally:
                sys.setprofile(None)
        return calls, [entry.target for entry in server.log]

    count_calls("fill caches")
    installed = count_calls("installed")
    for name in [name for name in sys.modules if name.partition(".")[0] == "playwright"] or ["playwright"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert count_calls("missing") == installed
    assert installed[0]["HtmlParser.parse"] == 2


def test_budget_of_pages_is_kept(web: SmallWeb, tmp_path: Path) -> None:
    with served(web) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], browser={"on": True, "pages": 1, "timeout_s": 120.0}))
    assert collection_status(tmp_path / "c").rendered == 1


def test_hosts_are_learnt() -> None:
    history = HostHistory([("needs", 2)])
    assert history.is_worthwhile("needs", page_is_empty=False)
    for _ in range(3):
        assert history.is_worthwhile("static", page_is_empty=True)
        assert not history.is_worthwhile("static", page_is_empty=False)
        history.record("static", gained=False)
        history.record("needs", gained=False)
    assert not history.is_worthwhile("static", page_is_empty=True)
    assert not history.is_worthwhile("needs", page_is_empty=False)
    assert history.is_worthwhile("needs", page_is_empty=True)


def test_missing_browser_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"browser\.path '/no/such/program': no such program"):
        find_chromium("/no/such/program")
