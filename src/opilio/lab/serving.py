"""`opilio lab serve`: run a server until somebody stops it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path

from opilio.lab.faults import HostFaults, load_faults, spread_faults
from opilio.lab.server import Serving, WebServer
from opilio.lab.shape import Shape
from opilio.lab.synthetic import SyntheticWeb
from opilio.lab.web import Web

Announce = Callable[[WebServer], None]


def serve_web(
    folder: Path, serving: Serving, announce: Announce, *, faults: bool = True, every: HostFaults | None = None
) -> int:
    """Serve a web's folder until SIGINT or SIGTERM; returns how many requests were answered.

    `faults`: heed the folder's `hosts.toml`; `every` holds for all hosts besides.
    """
    web = Web.open(folder)
    own = load_faults(folder) if faults else {}
    return run_loop(_until_stopped(WebServer(web, serving, spread_faults(web.hosts, own, every)), announce))


def serve_shape(
    shape: Shape, serving: Serving, announce: Announce, *, faults: bool = True, every: HostFaults | None = None
) -> int:
    """Serve a synthetic web whose traps never end, until SIGINT or SIGTERM."""
    web = SyntheticWeb(shape)
    own = web.faults if faults else {}
    return run_loop(_until_stopped(WebServer(web, serving, spread_faults(web.hosts, own, every)), announce))


async def _until_stopped(server: WebServer, announce: Callable[[WebServer], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with server:
        announce(server)
        await stop.wait()
    return len(server.log)


def run_loop(main: Coroutine[object, object, int]) -> int:
    """Run on uvloop where it is installed: half the cost per request, measured in benchmarks/lab."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
