"""A crawl beside thousands of hosts that never respond: how many pages of other hosts it gets.

    unshare --map-root-user --mount --net .venv/bin/python -m benchmarks.soak.silent MODE [SECONDS]

in network and mount namespaces of its own, with a name server and web servers at addresses that exist only there. 60
honest hosts with 40 pages each; one of their pages in ten, and a page that is a seed, link to random sub-domains of one
host, with words of the topic. MODE says what the sub-domains do: `none` (no such links), `names` (their names are never
answered), `robots` (they accept connections and never send robots.txt) or `pages` (they send robots.txt and no page).
"""

import asyncio
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

TOPIC = "wrens and other small birds"
HOSTS, PAGES, DELAY_S, INTERVAL_S = 60, 40, 0.5, 20
NAME_SERVER = "127.0.0.1"
HONEST_ADDRESSES = [f"8.8.4.{number}" for number in range(1, 21)]
SILENT_ADDRESSES = [f"9.9.9.{number}" for number in range(1, 9)]
SILENT = "silent.example"
LINK = f'<a href="http://w%d.{SILENT}/">{TOPIC}: the wren and its nests</a> '


class NameServer(threading.Thread):
    """Knows the honest hosts and, unless they are `mute`, the others."""

    def __init__(self, mute: bool) -> None:
        super().__init__(daemon=True)
        self._mute = mute
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((NAME_SERVER, 53))

    def run(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            labels, at = [], 12
            while length := query[at]:
                labels.append(query[at + 1 : at + 1 + length].decode())
                at += 1 + length
            name, (kind,) = ".".join(labels), struct.unpack_from("!H", query, at + 1)
            if self._mute and name.endswith(f".{SILENT}"):
                continue
            found = random.Random(name).choice(SILENT_ADDRESSES if name.endswith(SILENT) else HONEST_ADDRESSES)
            record = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(found)) if kind == 1 else b""
            head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(record) > 0, 0, 0)
            self._socket.sendto(head + query[12 : at + 5] + record, client)


class Servers:
    """All hosts, on every address. `requests`: the time of each request to an honest host."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.requests: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path, host = head.split(" ")[1], head.lower().partition("host: ")[2].partition("\r\n")[0]
                if host.endswith(f".{SILENT}") and (self._mode == "robots" or path != "/robots.txt"):
                    await asyncio.sleep(3600)
                if not host.endswith(SILENT):
                    self.requests.append(time.monotonic())
                body = b"" if path == "/robots.txt" else self._page(host, path)
                status = b"200 OK" if body else b"404 Not Found"
                lengths = b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
                writer.write(b"HTTP/1.1 " + status + b"\r\n" + lengths + body)
        writer.close()

    def _page(self, host: str, path: str) -> bytes:
        rng = random.Random(host + path)
        text = " ".join(f"word{rng.randrange(3000)}" for _ in range(80))
        links = [f"http://h{rng.randrange(HOSTS)}.example/{rng.randrange(PAGES)}.html" for _ in range(8)]
        body = f"<title>{TOPIC} {rng.random()}</title><p>{TOPIC}: the wren and its nests. {text}</p>"
        body += "".join(f'<a href="{link}">wrens {rng.randrange(3000)}</a> ' for link in links)
        if self._mode != "none" and (host == SILENT or rng.random() < 0.1):
            body += "".join(LINK % rng.randrange(10**6) for _ in range(500 if host == SILENT else 10))
        return body.encode()


async def main(mode: str, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "resolv.conf").write_text(f"nameserver {NAME_SERVER}\n")
        commands = [f"mount --bind {folder / 'resolv.conf'} /etc/resolv.conf", "ip link set lo up"]
        commands += [f"ip address add {address}/32 dev lo" for address in HONEST_ADDRESSES + SILENT_ADDRESSES]
        for command in commands:
            subprocess.run(command.split(), check=True)
        NameServer(mute=mode == "names").start()
        servers = Servers(mode)
        await asyncio.start_server(servers.serve, "0.0.0.0", 80)
        seeds = ["http://h0.example/0.html", "http://h1.example/0.html", *([f"http://{SILENT}/"] * (mode != "none"))]
        settings = {
            "stop.pages": 0,
            "stop.harvest_below": 0,
            "stop.minutes": seconds / 60,
            "politeness.delay_s": DELAY_S,
            "frontier.patience": 0,
        }
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        options += [part for seed in seeds for part in ("--seed", seed)]
        began = time.monotonic()
        options += ["--into", str(folder / "c"), "--quiet", "--offline-seeds"]
        crawl = await asyncio.create_subprocess_exec(sys.executable, "-m", "opilio", "crawl", TOPIC, *options)
        await crawl.wait()
        ended_s = time.monotonic() - began
    counts = Counter(int((at - began) // INTERVAL_S) for at in servers.requests)
    rates = " ".join(f"{counts[number] / INTERVAL_S:.1f}" for number in range(int(seconds // INTERVAL_S)))
    sys.stdout.write(f"{mode}: {len(servers.requests)} requests to honest hosts in {ended_s:.0f} s; per second, ")
    sys.stdout.write(f"in intervals of {INTERVAL_S} s: {rates}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 80.0))
