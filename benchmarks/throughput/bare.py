"""The bare line: libcurl + turbohtml + links + text in one process. Nothing stored, judged, ranked or made durable.

What a crawler in Python can't be faster than without another client or parser. Prints how many pages it read.
"""

import json
import sys
from urllib.parse import urljoin

import pycurl
import turbohtml
from protego import Protego

CONNECTIONS = 64


class BareLine:
    def __init__(self, seeds: list[str]) -> None:
        self.pages = 0
        self.characters = 0
        self._seen = set(seeds)
        self._waiting = list(reversed(seeds))
        self._multi = pycurl.CurlMulti()
        self._free = [pycurl.Curl() for _ in range(CONNECTIONS)]
        self._bodies: dict[pycurl.Curl, tuple[str, list[bytes]]] = {}
        self._robots: dict[str, Protego] = {}

    def run(self) -> None:
        while self._waiting or self._bodies:
            while self._waiting and self._free:
                self._ask(self._waiting.pop())
            self._multi.perform()
            if not self._collect() and not (self._waiting and self._free):
                self._multi.select(1.0)

    def _ask(self, url: str) -> None:
        origin = url[: url.index("/", 8)]
        rules = self._robots.get(origin)
        if rules is None:
            self._robots[origin] = rules = Protego.parse(_read(origin + "/robots.txt"))
        if not rules.can_fetch(url, "bare"):
            return
        handle = self._free.pop()
        pieces: list[bytes] = []
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.PROXY, "")
        handle.setopt(pycurl.WRITEFUNCTION, pieces.append)
        self._bodies[handle] = (url, pieces)
        self._multi.add_handle(handle)

    def _collect(self) -> int:
        _, well, ill = self._multi.info_read()
        for handle in (*well, *(h for h, _, _ in ill)):
            url, pieces = self._bodies.pop(handle)
            status = handle.getinfo(pycurl.RESPONSE_CODE)
            self._multi.remove_handle(handle)
            self._free.append(handle)
            if status == 200:
                self._read_page(url, b"".join(pieces))
        return len(well) + len(ill)

    def _read_page(self, url: str, body: bytes) -> None:
        self.pages += 1
        root = turbohtml.parse(body).root
        assert root is not None
        seen = self._seen
        hrefs = {(a.attr("href") or "").partition("#")[0] for a in root.iter_elements("a")}
        for href in hrefs - {""}:
            found = urljoin(url, href)
            if found not in seen and found.startswith("http"):
                seen.add(found)
                self._waiting.append(found)
        self.characters += len(root.text)


def _read(url: str) -> str:
    pieces: list[bytes] = []
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, url)
    handle.setopt(pycurl.PROXY, "")
    handle.setopt(pycurl.WRITEFUNCTION, pieces.append)
    handle.perform()
    return b"".join(pieces).decode("utf-8", "replace")


if __name__ == "__main__":
    line = BareLine(sys.argv[1:])
    line.run()
    print(json.dumps({"pages": line.pages, "characters": line.characters}))
