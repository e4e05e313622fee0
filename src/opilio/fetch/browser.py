"""Chromium without a window: what a page looks like after its scripts ran.

The browser has no network of its own. Every request is intercepted: the page itself is answered with the response that
was fetched before, scripts and data are fetched by the caller's function, everything else is refused. Chromium's proxy
is a closed port, so that a request that is not intercepted fails. Each page has a context of its own: nothing is kept.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.records import FetchResult

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Playwright, Request, Route

# Fetches a script or data for a page; None if it must not be fetched.
LoadResource = Callable[[str, str], Awaitable[FetchResult | None]]

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_ARGUMENTS = [
    # Port 9 of this machine is closed; <-loopback> sends requests to this machine through the proxy, too.
    *(
        "--proxy-server=http://127.0.0.1:9",
        "--proxy-bypass-list=<-loopback>",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ),
    *("--disable-background-networking", "--dns-prefetch-disable", "--no-pings", "--disable-quic"),
    # WebRTC would send UDP to any address. The option had the second name before.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
]
# Images, styles and fonts bring no text.
_LOADED_TYPES = frozenset({"script", "xhr", "fetch"})
# Headers that described the transfer, set state, or keep scripts from running.
_DROPPED_HEADERS = frozenset(
    """content-encoding content-length transfer-encoding connection keep-alive set-cookie content-security-policy
    strict-transport-security link refresh""".split()
)
# Checks in a row without a request in flight after which a page is ready.
_QUIET_CHECKS = 4
_WAIT = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))"
# Scroll to the end, and click on a button that promises more.
_ASK_FOR_MORE = """() => {
  window.scrollTo(0, document.documentElement.scrollHeight);
  const more = /^(load|show|view|see) more\\b|^more( results)?$|mehr (laden|anzeigen)|voir plus|ver más/i;
  for (const e of document.querySelectorAll("button, [role=button], a[href='#'], a:not([href])"))
    if (more.test((e.innerText || "").trim()) && !e.disabled) { e.click(); return; }
}"""
_SIZE = "() => document.documentElement.innerText.length + 100 * document.links.length"


class BrowserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one page may take."""

    timeout_s: float = 20.0
    scrolls: int = 5  # how often a page is asked for more
    dom_bytes: int = 4_000_000


class _Visit:
    """One page that is being rendered."""

    def __init__(self, fetched: FetchResult, load: LoadResource) -> None:
        self.url = fetched.url
        self._fetched = fetched
        self._load = load
        # The page itself.
        self._answered = False
        self.in_flight = 0
        # Where scripts tried to go instead.
        self.targets: list[str] = []

    async def answer(self, route: "Route") -> None:
        """Answer one request of the browser."""
        request = route.request
        self.in_flight += 1
        try:
            if request.is_navigation_request():
                await self._answer_navigation(route, request)
            elif request.method == "GET" and request.resource_type in _LOADED_TYPES:
                found = await self._load(request.url, request.resource_type)
                await (_fulfill(route, found) if found is not None and found.failure is None else route.abort())
            else:
                await route.abort()
        finally:
            self.in_flight -= 1

    async def _answer_navigation(self, route: "Route", request: "Request") -> None:
        if not self._answered:
            self._answered = True
            await _fulfill(route, self._fetched)
            return
        if _is_of_a_window(request):
            self.targets.append(request.url)
        # As if the user had stopped it: the page stays, while after a failure Chromium shows a page of its own.
        await route.abort("aborted")


def _is_of_a_window(request: "Request") -> bool:
    """Whether it loads a window, not a frame of a page."""
    from playwright.async_api import Error as BrowserError

    try:
        return request.frame.parent_frame is None
    except BrowserError:
        # A new window has no frame yet.
        return True


class ChromiumBrowser:
    """Renders pages with an installed Chromium, which starts with the first page."""

    def __init__(self, program: str, user_agent: str, limits: BrowserLimits | None = None) -> None:
        self._program = program
        self._user_agent = user_agent
        self._limits = limits or BrowserLimits()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    async def render(self, fetched: FetchResult, load: LoadResource) -> bytes:
        """The DOM of a fetched page as HTML; empty if it could not be rendered."""
        from playwright.async_api import Error as BrowserError

        visit = _Visit(fetched, load)
        try:
            browser = await self._start()
            context = await browser.new_context(
                user_agent=self._user_agent, service_workers="block", accept_downloads=False
            )
        except BrowserError:
            # It crashed: the next page starts another.
            self._browser = None
            return b""
        try:
            await context.route("**/*", visit.answer)
            await context.route_web_socket("**/*", lambda socket: socket.close())
            page = await context.new_page()
            page.on("dialog", lambda dialog: dialog.dismiss())
            try:
                async with asyncio.timeout(self._limits.timeout_s):
                    await self._run_scripts(page, visit)
            except TimeoutError:
                # The DOM as it is now.
                pass
            async with asyncio.timeout(self._limits.timeout_s):
                return self._with_targets(await page.content(), visit.targets)
        except (BrowserError, TimeoutError):
            return b""
        finally:
            # Requests that are still in flight end with the context.
            await context.close()

    async def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            await self._browser.close()
        if self._playwright is not None:
            await self._playwright.stop()
        self._browser = self._playwright = None

    async def _start(self) -> "Browser":
        from playwright.async_api import async_playwright

        async with self._starting:
            if self._playwright is None:
                self._playwright = await async_playwright().start()
            if self._browser is None or not self._browser.is_connected():
                # Chromium's sandbox does not run for root.
                arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
                self._browser = await self._playwright.chromium.launch(
                    executable_path=self._program,
                    args=arguments,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
            return self._browser

    async def _run_scripts(self, page: "Page", visit: _Visit) -> None:
        await page.goto(visit.url, wait_until="domcontentloaded", timeout=self._limits.timeout_s * 1000)
        await _settle(page, visit)
        for _ in range(self._limits.scrolls):
            before = await page.evaluate(_SIZE)
            await page.evaluate(_ASK_FOR_MORE)
            await _settle(page, visit)
            if await page.evaluate(_SIZE) <= before:
                break

    def _with_targets(self, html: str, targets: list[str]) -> bytes:
        """The DOM, and where scripts would have gone as links."""
        links = "".join(f'<p><a href="{escape(url)}">{escape(url)}</a></p>' for url in targets[:5])
        return html.encode("utf-8", "replace")[: self._limits.dom_bytes] + links.encode("utf-8", "replace")


async def _settle(page: "Page", visit: _Visit) -> None:
    """Wait until no request is in flight for a while.

    The page itself measures the time: on a busy machine its scripts are late, and so is its timer.
    """
    quiet = 0
    while quiet < _QUIET_CHECKS:
        await page.evaluate(_WAIT)
        quiet = 0 if visit.in_flight else quiet + 1


async def _fulfill(route: "Route", found: FetchResult) -> None:
    headers = {name: value for name, value in found.headers if name.lower() not in _DROPPED_HEADERS}
    await route.fulfill(status=found.status, headers=headers, body=found.body)


def find_chromium(path: str = "") -> str:
    """The program to start; ConfigError if there is none or the package that drives it is missing."""
    if find_spec("playwright") is None:
        raise ConfigError("browser.on: playwright is not installed; run: pip install 'opilio[browser]'")
    program = path or next((found for name in _PROGRAMS if (found := shutil.which(name))), "")
    if not program or shutil.which(program) is None:
        missing = f"browser.path '{path}': no such program" if path else "browser.on: no Chromium or Chrome found"
        raise ConfigError(f"{missing}; install one, for example with apt install chromium, or set browser.path")
    return program
