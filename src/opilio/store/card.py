"""What the user notes about a whole collection (title, note, archived), and its deletion."""

import shutil
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError
from opilio.store.collection import CONFIG, Collection, is_linked
from opilio.store.connection import COMMAND_LOCK_TIMEOUT_S, DATABASE, LOCK_FILE

CARD_META_KEY = "card"
# Everything that Opilio writes into a collection, the database first: without it the rest is not a collection.
FILE_PATTERNS = (
    f"{DATABASE}*",
    "pages-*.warc.gz",
    "crawl.log",
    "checksums.json*",
    "model.json",
    f"{CONFIG}*",
    LOCK_FILE,
)
INDEX_FOLDER = "index"


class CollectionCard(msgspec.Struct, frozen=True, kw_only=True):
    """An empty title means: the name of the folder."""

    title: str = ""
    note: str = ""
    archived: bool = False


def read_card(collection: Collection) -> CollectionCard:
    stored = collection.meta(CARD_META_KEY)
    return msgspec.json.decode(stored, type=CollectionCard) if stored else CollectionCard()


def write_card(folder: Path, card: CollectionCard) -> None:
    """Store it, also while a crawl runs: no crawl reads or writes this row."""
    with closing(Collection.open_for_append(folder)) as collection, collection.unit_of_work():
        collection.set_meta(**{CARD_META_KEY: msgspec.json.encode(card).decode()})


def delete_collection(folder: Path) -> None:
    """Delete the files of a collection, and its folder if nothing else is in it.

    CollectionError if another process writes to it.
    """
    if is_linked(folder):
        raise CollectionError(f"{folder}: is in PostgreSQL; drop its schema or database there")
    collection = Collection.open_for_writing(folder, "delete", COMMAND_LOCK_TIMEOUT_S)
    with closing(collection):
        collection.connection.close()
        _delete_files(folder)
    _delete_if_empty(folder)


def delete_new_collection(folder: Path) -> None:
    """Take a new collection back, with its folder; one that a crawl has begun with (it has a topic) stays."""
    if is_linked(folder):
        from opilio.store.postgres.collection import drop_new_tables

        drop_new_tables(folder)
        return
    collection = Collection.open_for_writing(folder)
    with closing(collection):
        if collection.meta("topic"):
            return
        collection.connection.close()
        _delete_files(folder)
    _delete_if_empty(folder)


def _delete_files(folder: Path) -> None:
    try:
        for path in [path for pattern in FILE_PATTERNS for path in folder.glob(pattern) if path.is_file()]:
            path.unlink()
        if (folder / INDEX_FOLDER).is_dir():
            shutil.rmtree(folder / INDEX_FOLDER)
    except OSError as error:
        raise CollectionError(f"{folder}: cannot be deleted completely: {error.strerror}") from error


def _delete_if_empty(folder: Path) -> None:
    """Files of others stay, and so does their folder."""
    with suppress(OSError):
        folder.rmdir()
