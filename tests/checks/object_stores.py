"""Object storage for tests: a real S3 server over HTTP (moto), and a folder. Both can vanish and come back."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from moto.server import ThreadedMotoServer

BUCKET = "pages"


class Vanishing(Protocol):
    """Storage whose address is a value of `store.objects`."""

    address: str

    def vanish(self) -> None: ...

    def restore(self) -> None: ...


class LocalObjects:
    """A folder, such as a mounted disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"file://{folder}"

    def vanish(self) -> None:
        self._folder.rename(self._folder.with_name("away"))

    def restore(self) -> None:
        self._folder.with_name("away").rename(self._folder)


class S3Objects:
    """A bucket of a server on loopback. Its objects outlive the server's port: moto keeps them in this process."""

    address = f"s3://{BUCKET}/crawls"

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        _, self.port = self._server.get_host_and_port()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(request):
            pass

    def vanish(self) -> None:
        self._server.stop()

    def restore(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()


@contextmanager
def running_s3() -> Iterator[S3Objects]:
    """A server, and the environment that leads to it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    storage = S3Objects()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{storage.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        try:
            yield storage
        finally:
            storage.vanish()
