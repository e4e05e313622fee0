"""SQLite's locks on a database stay held while a process looks at it, whatever else it does with the file."""

import subprocess
import sys
from pathlib import Path

from opilio.store.collection import Collection, check_collection
from opilio.store.connection import DATABASE

# The bytes that every open connection holds a read lock on (SQLite file format: PENDING_BYTE + 2, 510 bytes).
ASK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000000 + 2)
    except BlockingIOError:
        print("held")
"""


def test_looking_at_a_collection_lets_no_lock_go(tmp_path: Path) -> None:
    """A process that closes any handle of a file loses its POSIX locks on it; readers then saw a malformed database."""
    Collection.create(tmp_path / "c", "").close()
    reader = Collection.open_for_reading(tmp_path / "c")
    reader.connection.execute("SELECT count(*) FROM meta").fetchone()
    check_collection(tmp_path / "c")
    command = [sys.executable, "-c", ASK, str(tmp_path / "c" / DATABASE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    reader.close()
    assert result.stdout == "held\n"
