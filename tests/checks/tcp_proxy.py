"""A TCP proxy in front of a Unix socket, to cut the connections of a PostgreSQL server as a network does."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 60.0


class TcpProxy:
    """Forwards a loopback port to a Unix socket. While it is closed, connections are refused."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._lose_answers = 0
        self.port = 0
        self.open()

    def open(self) -> None:
        """Accept connections, always on the same port."""
        if self._server is None:
            self._run(self._open())

    def close(self) -> None:
        """Refuse connections and cut those that exist."""
        if self._server is not None:
            self._run(self._close())

    def cut(self) -> None:
        """Reset all connections."""
        self._loop.call_soon_threadsafe(self._abort)

    def lose_next_answer(self) -> None:
        """Cut the connection of the next COMMIT after the server has executed it: its client can't know that."""
        self._lose_answers += 1

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: "asyncio.Future[None] | object") -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)  # type: ignore[arg-type]

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._abort()
        await asyncio.sleep(0)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        self._writers.add(writer)
        try:
            with suppress(OSError):
                from_server, to_server = await asyncio.open_unix_connection(str(self._target))
                self._writers.add(to_server)
                try:
                    await self._forward(reader, writer, from_server, to_server)
                finally:
                    self._writers.discard(to_server)
                    to_server.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        lost = asyncio.Event()

        async def send() -> None:
            while data := await reader.read(1 << 16):
                if self._lose_answers and b"COMMIT" in data:
                    self._lose_answers -= 1
                    lost.set()
                to_server.write(data)
                await to_server.drain()

        async def answer() -> None:
            while data := await from_server.read(1 << 16):
                if lost.is_set():
                    return
                writer.write(data)
                await writer.drain()

        pumps = [asyncio.create_task(send()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


@contextmanager
def proxied(target: Path) -> Iterator[TcpProxy]:
    """A proxy, which ends with the block."""
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.end()
