"""Serve a synthetic web from a process of its own, for demos and tutorials."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from opilio.core.errors import OfflineWebError
from opilio.engine.workers.process import without_main_module
from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web
from opilio.lab.synthetic.shape import WebShape

STOP_TIMEOUT_S = 20.0


class WebServerProcess:
    """A running server on a loopback port; `proxy` is its address. The access log is complete after `close()`."""

    def __init__(self, shape: WebShape, log_file: Path | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(shape, log_file, theirs), daemon=True)
        with without_main_module():
            self._process.start()
        theirs.close()
        try:
            self.proxy: str = ours.recv()
        except EOFError as error:
            raise OfflineWebError("the demo web's server process ended at its start") from error
        finally:
            ours.close()

    def close(self) -> None:
        """Stop the server; further calls do nothing."""
        self._process.terminate()
        self._process.join(timeout=STOP_TIMEOUT_S)


def _serve(shape: WebShape, log_file: Path | None, channel: Connection) -> None:
    def announce(server: LabWebServer) -> None:
        channel.send(server.proxy)

    serve_synthetic_web(shape, LabServerConfig(log_file=log_file), announce)
