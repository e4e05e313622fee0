"""How fast the lab's server answers: requests a second on one core, with a client process of its own.

python benchmarks/lab/bench_server.py WEB [REQUESTS] [CONNECTIONS]
"""

import asyncio
import multiprocessing
import resource
import sys
import time
from functools import partial
from pathlib import Path

from opilio.lab.server.server import LabWebServer, run_event_loop
from opilio.lab.webs.web import WarcWeb

PIPELINE = 8


class Client(asyncio.Protocol):
    """Sends requests in batches and counts answers by their status line."""

    def __init__(self, requests: list[bytes], done: asyncio.Event) -> None:
        self.left, self.done, self.awaited = requests, done, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.send()

    def send(self) -> None:
        batch, self.left = self.left[:PIPELINE], self.left[PIPELINE:]
        self.awaited = len(batch)
        self.transport.write(b"".join(batch))

    def data_received(self, data: bytes) -> None:
        self.awaited -= data.count(b"HTTP/1.1 200")
        if self.awaited <= 0:
            self.send() if self.left else self.done.set()


def ask(port: int, urls: list[str], connections: int) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        waiting = []
        for number in range(connections):
            mine = [f"GET {u} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for u in urls[number::connections]]
            waiting.append(done := asyncio.Event())
            await loop.create_connection(partial(Client, mine, done), "127.0.0.1", port)
        await asyncio.gather(*(d.wait() for d in waiting))
        return 0

    run_event_loop(main())


def main() -> None:
    web = WarcWeb.open(Path(sys.argv[1]))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30_000
    connections = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    ok = [u for n, u in enumerate(web.urls) if n % 3 == 0 and web.response(n).status == 200]
    urls = (ok * (count // len(ok) + 1))[:count]

    async def served() -> int:
        async with LabWebServer(web) as server:
            for label in ("cold", "warm"):
                before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                client = multiprocessing.Process(target=ask, args=(server.port, urls, connections))
                client.start()
                while client.is_alive():
                    await asyncio.sleep(0.02)
                wall = time.perf_counter() - start
                after = resource.getrusage(resource.RUSAGE_SELF)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{label}: {count / wall:,.0f} pages/s wall, {1e6 * cpu / count:.0f} µs CPU a page")
        return 0

    run_event_loop(served())


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
