"""A PostgreSQL server for tests: Debian's, in a temporary folder, on a Unix socket, without fsync; or a pair of them.

The server refuses to run as root, so that as root it runs as the user that Debian's package makes. Each test gets a
schema of its own, which costs a hundredth of a database of its own.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from checks.tcp_proxy import TcpProxy, proxied
from opilio.store.postgres.connection import PostgresConnection

USER = "postgres"
_numbers = count(1)
OPTIONS = (
    "-c fsync=off -c full_page_writes=off -c listen_addresses='' -c max_connections=60 -c shared_buffers=32MB"
    " -c wal_retrieve_retry_interval=100"
)


def find_server() -> Path | None:
    """The folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    where = found[-1] if found else shutil.which("initdb")
    return Path(where).parent if where else None


class PostgresServer:
    """A server that can be stopped, killed and started again."""

    def __init__(self, folder: Path, programs: Path, primary: "PostgresServer | None" = None) -> None:
        self.folder = folder
        self._programs = programs
        self._data = folder / "data"
        if primary is None:
            self._run("initdb", "--no-sync", "--auth=trust", "--no-locale", "--encoding=UTF8", "-U", USER)
        else:
            self.copy(primary)

    def copy(self, primary: "PostgresServer") -> None:
        """Become the standby of a running server."""
        shutil.rmtree(self._data, ignore_errors=True)
        where = ["-h", str(primary.folder), "-U", USER]
        self._run("pg_basebackup", *where, "-R", "--no-sync", "--checkpoint=fast", "-X", "stream")

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "-w", "promote")

    def start(self, *more: str) -> None:
        """Start it and wait until it answers."""
        options = f"{OPTIONS} -k {self.folder} {' '.join(more)}"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it; `immediate`: as if it was killed."""
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-m", how, "stop")

    def dsn(self, schema: str = "public") -> str:
        """The address of a schema."""
        return f"postgresql:///postgres?host={self.folder}&user={USER}&options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """The address of a new, empty schema."""
        return self.dsn(self.make_schema())

    def make_schema(self) -> str:
        """The name of a new, empty schema."""
        name = f"test_{next(_numbers)}"
        with closing(PostgresConnection(self.dsn())) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return name

    def _run(self, program: str, *arguments: str) -> None:
        become = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        command = [*become, str(self._programs / program), "-D", str(self._data), *arguments]
        # A pipe would stay open in the server, and the wait for its end would not end.
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{program} failed; log: {_read(self.folder / 'log')}"


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


class ServerPair:
    """A primary and its synchronous standby, each behind a TCP proxy."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, proxies: dict[str, TcpProxy]) -> None:
        self.primary = primary
        self._standby = standby
        self._proxies = proxies
        self._schema = "public"
        self._attach()

    def new_schema(self) -> str:
        """The address of a new, empty schema, for workers: through the proxies, on whichever server is the primary."""
        self._schema = self.primary.make_schema()
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self._proxies.values())
        options = f"options=-csearch_path%3D{self._schema}"
        return f"postgresql://{USER}@{hosts}/postgres?target_session_attrs=read-write&{options}"

    @property
    def dsn(self) -> str:
        """The address of the schema on the primary, not through a proxy."""
        return self.primary.dsn(self._schema)

    @property
    def proxy(self) -> TcpProxy:
        """The proxy of the primary."""
        return self._proxies[self.primary.folder.name]

    def restart(self) -> None:
        """Kill the primary and start it again."""
        self._stop()
        self.primary.start()
        self.proxy.open()

    def fail_over(self) -> None:
        """Kill the primary, promote its standby, and make a new standby in place of the old primary."""
        self._stop()
        self._standby.promote()
        self.primary, self._standby = self._standby, self.primary
        self._standby.copy(self.primary)
        self._standby.start()
        self._attach()

    def _stop(self) -> None:
        self.primary.stop("immediate")
        self.proxy.close()

    def _attach(self) -> None:
        """Have commits wait for the standby from now on."""
        self._proxies[self._standby.folder.name].open()
        with closing(PostgresConnection(self.primary.dsn())) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            end = time.monotonic() + 60
            while not connection.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchall():
                assert time.monotonic() < end, _read(self._standby.folder / "log")
                time.sleep(0.02)


@contextmanager
def running_pair() -> Iterator[ServerPair]:
    """A primary and a standby, which end with the block."""
    with ExitStack() as stack:
        primary = stack.enter_context(running_server())
        standby = stack.enter_context(running_server(primary))
        proxies = {
            server.folder.name: stack.enter_context(proxied(server.folder / ".s.PGSQL.5432"))
            for server in (primary, standby)
        }
        yield ServerPair(primary, standby, proxies)


@contextmanager
def running_server(primary: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """A running server, or the standby of one, which ends with the block."""
    programs = find_server()
    if programs is None:
        pytest.skip("no PostgreSQL server: run 'apt-get install postgresql'")
    # Not pytest's folder, which other users can't enter; short, because a socket's path is limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="opilio-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    try:
        server = PostgresServer(folder, programs, primary)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
