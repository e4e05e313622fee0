"""A name server that changes its answer or does not answer, and fetches of the names. Runs in namespaces of its own, as
root there.

    unshare --map-root-user --mount --net python -m checks.rebinding FOLDER

`PUBLIC` is an address of this network namespace, so nothing leaves the machine. Prints the results as JSON.
"""

import asyncio
import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import FetchLimits, NetworkOptions

PUBLIC, SECRET = "8.8.4.4", "127.0.0.1"
# What the name server answers for each name, query by query; the last answer is repeated.
ANSWERS: dict[str, Sequence[Sequence[str]]] = {
    "honest.example": [[PUBLIC]],
    "changing.example": [[PUBLIC], [SECRET]],
    "both.example": [[SECRET, PUBLIC]],
}
# Names in this domain get no answer.
SILENT, SILENT_NAMES = "silent", 40


class NameServer(threading.Thread):
    """Answers queries for IPv4 addresses with a life time of zero."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((SECRET, 53))
        self.queries: list[str] = []

    def run(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if SILENT.encode() not in query:
                self._socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question, (kind,) = query[12 : at + 5], struct.unpack_from("!H", query, at + 1)
        found: Sequence[str] = ()
        if kind == 1 and (choices := ANSWERS.get(".".join(labels))):
            found = choices[min(self.queries.count(labels[0]), len(choices) - 1)]
            self.queries.append(labels[0])
        # The name of each record is that of the question, at offset 12.
        records = [struct.pack("!HHHIH4s", 0xC00C, 1, 1, 0, 4, socket.inet_aton(address)) for address in found]
        return query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0) + question + b"".join(records)


async def main(folder: Path) -> None:
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver {SECRET}\n")
    for command in (
        f"mount --bind {resolver} /etc/resolv.conf",
        "ip link set lo up",
        f"ip address add {PUBLIC}/32 dev lo",
    ):
        subprocess.run(command.split(), check=True)
    NameServer().start()
    connected: list[str] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        connected.append(address)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(address)}\r\n\r\n{address}".encode()
        )
        writer.close()

    servers = [await asyncio.start_server(respond, address, 80) for address in (PUBLIC, SECRET)]
    results = [
        await fetch(CurlFetcher("test"), name)  # each with its own cache of names
        for name in ("honest.example", "changing.example", "changing.example", "both.example")
    ]
    one_handle = CurlFetcher("test", network=NetworkOptions(connections=1))
    in_turn = [await fetch(one_handle, name) for name in ("unknown.example", "honest.example", "unknown.example")]
    first = await fetch_beside_silent_names()
    for server in servers:
        server.close()
    sys.stdout.write(
        json.dumps({"results": results, "in turn": in_turn, "connected": sorted(set(connected)), "first": first})
    )


async def fetch(fetcher: CurlFetcher, name: str) -> list[str]:
    fetched = await fetcher.fetch(f"http://{name}/")
    return [name, fetched.body.decode(), fetched.failure.kind if fetched.failure else ""]


async def fetch_beside_silent_names() -> str:
    """The name of the page that arrives first, when names without an answer are looked up before it."""
    fetcher = CurlFetcher("test", limits=FetchLimits(connect_s=1.0))
    names = [*(f"a{number}.{SILENT}.example" for number in range(SILENT_NAMES)), "honest.example"]
    found = [await task for task in asyncio.as_completed([fetcher.fetch(f"http://{name}/") for name in names])]
    await fetcher.close()
    assert {one.failure.kind for one in found if one.failure} == {"dns"}
    return found[0].url


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
