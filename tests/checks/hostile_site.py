"""A web server on loopback that behaves as well or as badly as a test asks. Raw bytes out: no HTTP library helps it.

A behaviour is a coroutine `(request, writer)`; when it returns, the connection closes unless it returns True.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Request:
    target: str
    headers: dict[str, str]
    raw: bytes


Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[bool]]


@dataclass
class Site:
    """What the server saw. `url` is its root, by address."""

    behaviours: dict[str, Behaviour]
    port: int = 0
    scheme: str = "http"
    connections: int = 0
    requests: list[Request] = field(default_factory=list)
    closed_by_client: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def root(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return self.root + path

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.closed_by_client.set()
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raw = await reader.readuntil(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        request = Request(lines[0].split(" ")[1], headers, raw)
        self.requests.append(request)
        behave = self.behaviours.get(request.target, missing)
        keep = await behave(request, writer)
        await writer.drain()
        return keep


@asynccontextmanager
async def site(behaviours: Mapping[str, Behaviour], tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A running site, gone with all its connections at the end."""
    served = Site(dict(behaviours), scheme="https" if tls else "http")

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(served.serve(reader, writer))
        served.tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in served.tasks:
            task.cancel()
        await asyncio.gather(*served.tasks, return_exceptions=True)
        await server.wait_closed()


def answer(body: bytes = b"<p>wren</p>", status: str = "200 OK", **headers: str) -> Behaviour:
    """A well-formed answer; `content_type="..."` and the like become headers."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> bool:
        named = {"content-type": "text/html", "content-length": str(len(body))}
        named |= {k.replace("_", "-"): v for k, v in headers.items()}
        lines = "".join(f"{k}: {v}\r\n" for k, v in named.items() if v)
        writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)
        return True

    return behave


def raw(data: bytes) -> Behaviour:
    """These bytes, then the end of the connection."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        return False

    return behave


def endless(head: bytes, piece: bytes) -> Behaviour:
    """A head, and then the same piece for as long as anybody listens."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> bool:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return behave


def silent(head: bytes = b"") -> Behaviour:
    """A head (or nothing at all), and then silence without end."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> bool:
        writer.write(head)
        await writer.drain()
        await asyncio.get_running_loop().create_future()
        return False

    return behave


missing = answer(b"no such page", "404 Not Found", content_type="text/plain")
