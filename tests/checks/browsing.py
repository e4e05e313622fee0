"""A real browser: Debian's Chromium, driven without a window."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

WAIT_MS = 180_000  # CI machines are slow: conditions are waited for, and come much sooner
PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 900}
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "phone": {"color_scheme": "light", "viewport": PHONE},
}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser while the block runs."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on this machine; `make test` installs it on Debian")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], timeout=WAIT_MS
        )
        yield browser
        browser.close()


class Tab:
    """One page of the browser that remembers what went wrong in it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.problems: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)
        page.on("dialog", self._dismissed)

    def _dismissed(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.base}{path}", wait_until="domcontentloaded")
        return self.page

    def text(self, selector: str = "main") -> str:
        return self.page.inner_text(selector)

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def tab(browser: Browser, base: str, **options: Any) -> Iterator[Tab]:
    """A fresh tab; `options` as of a browser context (color_scheme, viewport, java_script_enabled)."""
    context = browser.new_context(**options)
    try:
        yield Tab(context.new_page(), base)
    finally:
        context.close()
