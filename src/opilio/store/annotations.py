"""What the user notes about pages (tags, notes, lists, saved searches) and about a whole collection; its deletion.

No crawl reads these tables, so they are written at any time, also while a crawl runs. Only stored pages can be
annotated; the annotations of a page that is gone are kept. The card of a collection has its title, a note, and whether
it is archived.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError, UsageError
from opilio.core.protocols import Database
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url
from opilio.store.collection import Collection, is_linked, open_readonly
from opilio.store.connection import (
    COMMAND_LOCK_TIMEOUT_S,
    CONFIG,
    DATABASE,
    INDEX_FOLDER,
    LOCK_FILE,
    read_row,
    read_rows,
    row_reader,
    upsert_sql,
)
from opilio.store.pages import judged_page, page_url

MAX_NAME_CHARS = 80  # of a tag, a list and a saved search
MAX_NOTE_CHARS = 5_000
MAX_TITLE_CHARS = 120
_ADD_TAG = "INSERT INTO page_tag (key, tag, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_ADD_TO_LIST = """INSERT INTO list_page (list, key, place, at) VALUES (
    ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM list_page WHERE list = ?), ?) ON CONFLICT DO NOTHING"""
_SET_NOTE = upsert_sql("page_note", ("key", "note", "at"), ("key",))
_SAVE_SEARCH = upsert_sql("saved_search", ("name", "query", "filters", "at", "seen_at"), ("name",))
# The current page, else the last version of a page that is gone.
_LISTED = """list_page AS l LEFT JOIN page AS p ON p.key = l.key LEFT JOIN version AS v ON p.key IS NULL
    AND v.key = l.key AND v.seq = (SELECT max(seq) FROM version AS o WHERE o.key = l.key)"""
_LISTED_COLUMNS = """l.key, coalesce(p.url, v.url, ''), coalesce(p.title, v.title, ''), coalesce(p.host, v.host, ''),
    coalesce(p.score, v.score, 0), coalesce(p.relevant, v.relevant, 0), coalesce(p.fetched_at, v.fetched_at, 0),
    p.key IS NULL"""
# A page that moves takes its annotations along.
_COPY_TO_TARGET = (
    "INSERT INTO page_tag (key, tag, at) SELECT ?, tag, at FROM page_tag WHERE key = ? ON CONFLICT DO NOTHING",
    "INSERT INTO page_note (key, note, at) SELECT ?, note, at FROM page_note WHERE key = ? ON CONFLICT DO NOTHING",
    """INSERT INTO list_page (list, key, place, at) SELECT list, ?, place, at FROM list_page WHERE key = ?
        ON CONFLICT DO NOTHING""",
)


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What the user noted about one page."""

    tags: tuple[str, ...] = ()
    note: str = ""
    lists: tuple[str, ...] = ()


class AnnotationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the annotations of pages; `note` None leaves the note, an empty one removes it."""

    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    note: str | None = None
    add_to: tuple[str, ...] = ()
    remove_from: tuple[str, ...] = ()

    def checked(self) -> "AnnotationChange":
        """With normalized names; UsageError for an invalid one."""
        return AnnotationChange(
            add_tags=tuple(check_name("tag", tag) for tag in self.add_tags),
            remove_tags=tuple(" ".join(tag.split()) for tag in self.remove_tags),
            note=None if self.note is None else _check_note(self.note),
            add_to=tuple(check_name("list", name) for name in self.add_to),
            remove_from=tuple(" ".join(name.split()) for name in self.remove_from),
        )


class PageOfList(msgspec.Struct, frozen=True):
    """A page of a list. `gone`: it is no longer stored; the rest is that of its last version."""

    key: int
    url: str
    title: str
    host: str
    score: float
    relevant: bool
    fetched_at: float
    gone: bool


class SavedSearch(msgspec.Struct, frozen=True):
    """A search with a name. `filters`: JSON of `SearchFilters`; `seen_at`: when the user last looked at its hits."""

    name: str
    query: str
    filters: str
    at: float
    seen_at: float


def check_name(kind: str, name: str) -> str:
    """The name of a tag, a list or a saved search in normal form; UsageError if it is invalid.

    >>> check_name("tag", "  to   read ")
    'to read'
    """
    text = " ".join(name.split())
    if not text:
        raise UsageError(f"{kind}: the name is empty")
    if len(text) > MAX_NAME_CHARS:
        raise UsageError(f"{kind} '{text[:40]}…': longer than {MAX_NAME_CHARS} characters")
    if not text.isprintable() or (kind == "tag" and "," in text):
        raise UsageError(f"{kind} '{text[:40]}': contains a comma or a control character")
    return text


def _check_note(note: str) -> str:
    if len(note) > MAX_NOTE_CHARS:
        raise UsageError(f"note: longer than {MAX_NOTE_CHARS} characters")
    return note.replace("\0", "").replace("\r\n", "\n").strip()


def split_tags(text: str) -> tuple[str, ...]:
    """Tags written with commas between them.

    >>> split_tags("wren, to read,")
    ('wren', 'to read')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def annotate(folder: Path, urls: Sequence[str], change: AnnotationChange, now: float) -> int:
    """Change the annotations of stored pages; returns how many pages.

    UsageError lists every URL that is not a stored page; then nothing is changed.
    """
    wanted = change.checked()
    with open_readonly(folder) as collection:
        keys = _find_keys(collection.connection, urls)

    def write(db: Database) -> None:
        for key in keys:
            _write_change(db, key, wanted, now)

    _write(folder, write)
    return len(keys)


def _find_keys(db: Database, urls: Sequence[str]) -> list[int]:
    found = dict.fromkeys(_find_key(db, url) for url in urls)
    problems = [problem for problem in found if isinstance(problem, str)]
    if problems:
        raise UsageError("\n".join(problems))
    return [key for key in found if isinstance(key, int)]


def _find_key(db: Database, given: str) -> int | str:
    """The key of a stored page, or why it can't be annotated."""
    url = canonicalize_url(given) if "://" in given else None
    if url is None:
        return f"'{given[:200]}': not a valid http(s) URL; include the scheme, for example https://example.org/"
    page = judged_page(db, url_key(url))
    if page is None:
        return f"{url[:300]}: is not a stored page of the collection; only stored pages can be annotated"
    if page.duplicate_of:
        return f"{url[:300]}: is a copy of {page_url(db, page.duplicate_of) or 'another page'}; annotate that one"
    return url_key(url)


def _write_change(db: Database, key: int, change: AnnotationChange, now: float) -> None:
    db.executemany(_ADD_TAG, [(key, tag, now) for tag in change.add_tags])
    db.executemany("DELETE FROM page_tag WHERE key = ? AND tag = ?", [(key, tag) for tag in change.remove_tags])
    if change.note:
        db.execute(_SET_NOTE, (key, change.note, now))
    elif change.note is not None:
        db.execute("DELETE FROM page_note WHERE key = ?", (key,))
    db.executemany(_ADD_TO_LIST, [(name, key, name, now) for name in change.add_to])
    db.executemany("DELETE FROM list_page WHERE list = ? AND key = ?", [(name, key) for name in change.remove_from])


def _write(folder: Path, change: Callable[[Database], object]) -> None:
    """Write in one transaction, without the lock: only users write these tables."""
    with closing(Collection.open_for_append(folder)) as collection, collection.unit_of_work():
        change(collection.connection)


def annotations_of(db: Database, key: int) -> Annotations:
    """What the user noted about a page."""
    note = db.execute("SELECT note FROM page_note WHERE key = ?", (key,)).fetchone()
    return Annotations(
        tags=tuple(tag for (tag,) in db.execute("SELECT tag FROM page_tag WHERE key = ? ORDER BY tag", (key,))),
        note=str(note[0]) if note else "",
        lists=tuple(name for (name,) in db.execute("SELECT list FROM list_page WHERE key = ? ORDER BY list", (key,))),
    )


def read_tags(db: Database) -> dict[str, frozenset[int]]:
    """The pages of every tag, by key."""
    found: dict[str, set[int]] = {}
    for tag, key in db.execute("SELECT tag, key FROM page_tag ORDER BY tag"):
        found.setdefault(tag, set()).add(key)
    return {tag: frozenset(keys) for tag, keys in found.items()}


def read_notes(db: Database) -> dict[int, str]:
    """The notes of pages by key."""
    return dict(db.execute("SELECT key, note FROM page_note"))


def read_list_names(db: Database) -> dict[str, int]:
    """The lists with their numbers of pages."""
    return dict(db.execute("SELECT list, count(*) FROM list_page GROUP BY list ORDER BY list"))


def read_list(db: Database, name: str) -> list[PageOfList]:
    """The pages of a list in its order."""
    rows = db.execute(f"SELECT {_LISTED_COLUMNS} FROM {_LISTED} WHERE l.list = ? ORDER BY l.place", (name,))
    return list(map(row_reader(PageOfList), rows))


def require_list(db: Database, name: str) -> str:
    """The name of a list that exists; UsageError otherwise."""
    known = read_list_names(db)
    if name not in known:
        raise UsageError(f"list '{name[:80]}': no such list; lists: {', '.join(known) or 'none yet'}")
    return name


def move_in_list(folder: Path, name: str, url: str, place: int) -> None:
    """Put a page of a list at another place, counted from 1."""
    with open_readonly(folder) as collection:
        pages = read_list(collection.connection, require_list(collection.connection, name))
    keys = [page.key for page in pages]
    key = next((page.key for page in pages if page.url == url), None)
    if key is None:
        raise UsageError(f"{url[:300]}: is not in the list '{name}'")
    keys.remove(key)
    keys.insert(max(0, place - 1), key)
    places = [(at, name, one) for at, one in enumerate(keys, 1)]
    _write(folder, lambda db: db.executemany("UPDATE list_page SET place = ? WHERE list = ? AND key = ?", places))


def rename_list(folder: Path, name: str, new_name: str) -> str:
    """Give a list another name; returns it. UsageError if a list has it."""
    wanted = check_name("list", new_name)
    with open_readonly(folder) as collection:
        require_list(collection.connection, name)
        if wanted != name and wanted in read_list_names(collection.connection):
            raise UsageError(f"list '{wanted}': already exists; choose another name")
    _write(folder, lambda db: db.execute("UPDATE list_page SET list = ? WHERE list = ?", (wanted, name)))
    return wanted


def delete_list(folder: Path, name: str) -> None:
    """Delete a list; its pages, tags and notes stay."""
    with open_readonly(folder) as collection:
        require_list(collection.connection, name)
    _write(folder, lambda db: db.execute("DELETE FROM list_page WHERE list = ?", (name,)))


def read_searches(db: Database) -> list[SavedSearch]:
    return list(read_rows(db, SavedSearch, "saved_search ORDER BY name"))


def require_search(db: Database, name: str) -> SavedSearch:
    """A saved search by name; UsageError if the name is unknown."""
    found = read_row(db, SavedSearch, "saved_search WHERE name = ?", (name,))
    if found is None:
        known = ", ".join(search.name for search in read_searches(db)) or "none"
        raise UsageError(f"search '{name[:80]}': none is saved under this name; saved: {known}")
    return found


def save_search(folder: Path, search: SavedSearch) -> None:
    """Store a search; one of the same name is replaced."""
    named = msgspec.structs.replace(search, name=check_name("search", search.name))
    _write(folder, lambda db: db.execute(_SAVE_SEARCH, msgspec.structs.astuple(named)))


def mark_search_seen(folder: Path, name: str, now: float) -> None:
    """Hits stored up to now are no longer new."""
    _require_saved(folder, name)
    _write(folder, lambda db: db.execute("UPDATE saved_search SET seen_at = ? WHERE name = ?", (now, name)))


def delete_search(folder: Path, name: str) -> None:
    _require_saved(folder, name)
    _write(folder, lambda db: db.execute("DELETE FROM saved_search WHERE name = ?", (name,)))


def _require_saved(folder: Path, name: str) -> None:
    with open_readonly(folder) as collection:
        require_search(collection.connection, name)


def copy_annotations(db: Database, key: int, target: int) -> None:
    """A page moved: its tags, its note and its places in lists go along."""
    for statement in _COPY_TO_TARGET:
        db.execute(statement, (target, key))


def tags_by_page(tags: Mapping[str, Iterable[int]]) -> dict[int, list[str]]:
    """The tags of each page, from the pages of each tag."""
    found: dict[int, list[str]] = {}
    for tag, keys in tags.items():
        for key in keys:
            found.setdefault(key, []).append(tag)
    return found


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
    """Delete a new collection with its folder, unless a crawl has started in it (then it has a topic)."""
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
