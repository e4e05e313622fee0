"""Who asked for what: the record by which any crawler, ours or another, is scored."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from opilio.model.errors import WebError
from opilio.model.urls import canonical


class Attempt(NamedTuple):
    """One fetch attempt: robots.txt is none."""

    url: str
    status: int


class Access(msgspec.Struct, frozen=True, array_like=True):
    """One request. `target` is the path and query as they were sent."""

    at: float
    host: str
    target: str
    status: int
    client_port: int
    method: str = "GET"

    @property
    def url(self) -> str:
        """The canonical address asked for; empty where there is none."""
        return canonical(f"http://{self.host}{self.target}") or ""


_encoder = msgspec.json.Encoder()


def write_log(accesses: Iterable[Access], path: Path) -> None:
    """Add requests to a file, one JSON array a line."""
    try:
        with path.open("ab") as file:
            file.write(b"".join(_encoder.encode(access) + b"\n" for access in accesses))
    except OSError as error:
        raise WebError(f"{path}: the access log can't be written: {error.strerror}") from error


def read_log(path: Path) -> list[Access]:
    """The requests in a file that `write_log` wrote."""
    try:
        return [msgspec.json.decode(line, type=Access) for line in path.read_bytes().splitlines() if line]
    except (OSError, msgspec.DecodeError) as error:
        raise WebError(f"{path}: no access log: {error}") from error


def fetch_attempts(accesses: Iterable[Access]) -> list[Attempt]:
    """What a crawl is charged for, in order: GETs, without robots.txt, which is free for everybody."""
    asked = ((a.url, a.status) for a in accesses if a.method == "GET")
    return [Attempt(url, status) for url, status in asked if url and not url.endswith("/robots.txt")]
