"""A column of `page` is declared once: tables, inserts, versions, merges and exports follow."""

import subprocess
import sys
import textwrap
from pathlib import Path

from opilio.store.collection import Collection
from opilio.store.schema import PAGE_COLUMN_NAMES

# In a process of its own: the list is changed before any other module reads it.
SCRIPT = textwrap.dedent(
    """
    from pathlib import Path

    from opilio.store import schema

    source = Path(schema.__file__).read_text(encoding="utf-8")
    source = source.replace('''lambda v: v.position.length),''', '''lambda v: v.position.length),
    PageColumn("size_bytes", int, lambda v: v.fetched.size_bytes, exported=True),''')
    exec(compile(source, schema.__file__, "exec"), vars(schema))

    from opilio.core.records import Analysis, FetchResult, Lead, Outcome, PageChange, Verdict
    from opilio.manage.pages import PAGE_COLUMNS
    from opilio.store.collection import Collection
    from opilio.store.maintain.merge_tables import COLUMNS
    from opilio.store.page_selection import PageFilter, select_pages
    from opilio.store.writer import CollectionWriter

    collection = Collection.in_memory()
    writer = CollectionWriter(collection, None)

    def store(size, change):
        lead = Lead(url="http://a.example/", key=7, host="a.example")
        fetched = FetchResult(url=lead.url, status=200, size_bytes=size, started_at=float(size))
        analysis = Analysis(title="Wren", verdict=Verdict(score=0.9, relevant=True))
        with collection.unit_of_work():
            writer.write_outcomes([Outcome(lead=lead, fetched=fetched, analysis=analysis, change=change)])

    store(100, PageChange.NEW)
    store(200, PageChange.CHANGED)
    (page,) = select_pages(collection, PageFilter())
    (version,) = collection.connection.execute("SELECT size_bytes, cause FROM version")
    assert page.values["size_bytes"] == 200, page
    assert version == (100, "changed"), version
    assert "size_bytes" in PAGE_COLUMNS and "size_bytes" in COLUMNS["page"] and "size_bytes" in COLUMNS["version"]
    """
)


def test_added_column_flows_through(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tables_have_the_declared_columns() -> None:
    connection = Collection.in_memory().connection
    for table, more in (("page", ()), ("version", ("until", "ended", "cause"))):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        assert tuple(columns) == (*PAGE_COLUMN_NAMES, *more)
