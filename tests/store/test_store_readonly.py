"""A collection where nothing can be written (another user's folder, a disc, a snapshot) can be read all the same."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opilio.store.collection import Collection
from opilio.store.connection import DATABASE

# As a stranger: a superuser could write anywhere.
READ = """
import os, pathlib, sys
from opilio.core.errors import CollectionError
from opilio.store.collection import open_readonly
if os.getuid() == 0:
    os.setuid(65534)
try:
    with open_readonly(pathlib.Path(sys.argv[1])) as collection:
        print(collection.meta("state"))
except CollectionError as error:
    print(error)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:  # not tmp_path: no stranger gets there
        Path(place).chmod(0o755)
        collection = Collection.create(Path(place) / "c", "")
        collection.set_meta(state="stopped")
        collection.close()
        yield Path(place) / "c"
        (Path(place) / "c").chmod(0o755)


def read(folder: Path) -> str:
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    done = subprocess.run([sys.executable, "-c", READ, folder], capture_output=True, text=True, check=True)
    return done.stdout


def test_collection_is_read_where_its_folder_can_not_be_written(folder: Path) -> None:
    assert read(folder) == "stopped\n"
    assert {path.name for path in folder.iterdir()} == {"checksums.json", "crawl.db", "crawl.lock", "crawl.toml"}


def test_nothing_old_is_shown_there_when_a_crawl_was_killed(folder: Path) -> None:
    """Its last commits are in the file beside the database, which SQLite can't open there."""
    script = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('DELETE FROM meta'); c.commit()"
    subprocess.run([sys.executable, "-c", f"{script}; os._exit(0)", folder / DATABASE], check=True)
    (folder / f"{DATABASE}-shm").unlink()
    result = read(folder)
    assert (result.count("\n"), "copy the folder elsewhere" in result) == (1, True)
