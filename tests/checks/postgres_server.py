"""A PostgreSQL server for tests: Debian's, in a temporary folder, on a Unix socket, without fsync.

The server refuses to run as root, so that as root it runs as the user that Debian's package makes. Each test gets a
schema of its own, which costs a hundredth of a database of its own.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from opilio.store.postgres.connection import PostgresConnection

USER = "postgres"
_numbers = count(1)
OPTIONS = "-c fsync=off -c full_page_writes=off -c listen_addresses='' -c max_connections=60 -c shared_buffers=32MB"


def find_server() -> Path | None:
    """The folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    where = found[-1] if found else shutil.which("initdb")
    return Path(where).parent if where else None


class PostgresServer:
    """A server that can be stopped, killed and started again."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._data = folder / "data"
        self._run("initdb", "--no-sync", "--auth=trust", "--no-locale", "--encoding=UTF8", "-U", USER)

    def start(self, *more: str) -> None:
        """Start it and wait until it answers."""
        options = f"{OPTIONS} -k {self.folder} {' '.join(more)}"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it; `immediate`: as if it was killed."""
        self._run("pg_ctl", "-w", "-m", how, "stop")

    def dsn(self, schema: str = "public") -> str:
        """The address of a schema."""
        return f"postgresql:///postgres?host={self.folder}&user={USER}&options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """The address of a new, empty schema."""
        name = f"test_{next(_numbers)}"
        with closing(PostgresConnection(self.dsn())) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.dsn(name)

    def _run(self, program: str, *arguments: str) -> None:
        become = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        command = [*become, str(self._programs / program), "-D", str(self._data), *arguments]
        # A pipe would stay open in the server, and the wait for its end would not end.
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{program} failed; log: {_read(self.folder / 'log')}"


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A running server, which ends with the block."""
    programs = find_server()
    if programs is None:
        pytest.skip("no PostgreSQL server: run 'apt-get install postgresql'")
    # Not pytest's folder, which other users can't enter; short, because a socket's path is limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="opilio-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    try:
        server = PostgresServer(folder, programs)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
