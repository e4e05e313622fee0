"""A name server that changes its answer, and fetches of the name. Runs in namespaces of its own, as root there.

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

PUBLIC, SECRET = "8.8.4.4", "127.0.0.1"
# What the name server answers for each name, query by query; the last answer is repeated.
ANSWERS: dict[str, Sequence[Sequence[str]]] = {
    "honest.example": [[PUBLIC]],
    "changing.example": [[PUBLIC], [SECRET]],
    "both.example": [[SECRET, PUBLIC]],
}


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
    results = []
    for name in ("honest.example", "changing.example", "changing.example", "both.example"):
        fetcher = CurlFetcher("test")  # each with its own cache of names
        fetched = await fetcher.fetch(f"http://{name}/")
        await fetcher.close()
        results.append([name, fetched.body.decode(), fetched.failure.kind if fetched.failure else ""])
    for server in servers:
        server.close()
    sys.stdout.write(json.dumps({"results": results, "connected": connected}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
