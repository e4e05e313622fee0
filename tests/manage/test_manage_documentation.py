"""A crawl of five documentation sites from Debian packages, exported as Markdown: code and tables are intact."""

import re
from mimetypes import guess_type
from pathlib import Path
from textwrap import dedent

import pytest
import turbohtml

from checks.small_webs import crawl, served, settings_for
from opilio.core.urls import canonicalize_url
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.formats.markdown import convert_page
from opilio.manage.pages import PageTable
from opilio.store.page_selection import PageFilter

pytestmark = pytest.mark.slow

MANUALS = Path("/usr/share/doc")
# Host: folder of the package, first page, pages that are compared.
SITES = {
    "python.example": ("python3-doc/html", "library/asyncio-task.html", ["library/asyncio-task.html"]),
    "git.example": ("git-doc", "git-rebase.html", ["git-rebase.html", "git-log.html"]),
    "sqlite.example": ("sqlite3", "cli.html", ["cli.html", "datatype3.html"]),
    "postgresql.example": ("postgresql-doc-15/html", "queries-table-expressions.html", ["functions-math.html"]),
    "valgrind.example": ("valgrind/html", "mc-manual.html", ["mc-manual.html", "manual-core.html"]),
}
PAGES = 8  # of each site
# Tables of data: SQLite lays out its pages with tables, too.
TABLE_ROWS = "table[border]:not(.nav) tr, table.docutils tr, table.table tr"
# A code block, also inside of a list or a quote.
FENCE = re.compile(r"^([ >]*(?:[-*] |\d+\. )?[ >]*)(`{3,})[^\n]*\n(.*?)^[ >]*\2 *$", re.MULTILINE | re.DOTALL)


class ManualWeb:
    """The files of the packages as sites."""

    def hosts(self) -> dict[str, int]:
        return dict.fromkeys(SITES, 1)

    def find(self, url: str) -> RecordedResponse:
        host, _, path = url.removeprefix("http://").partition("/")
        file = MANUALS / SITES[host][0] / path.partition("?")[0]
        if not file.is_file():
            return RecordedResponse(404, (("Content-Type", "text/plain"),), b"")
        kind = guess_type(file.name)[0] or "application/octet-stream"
        return RecordedResponse(200, (("Content-Type", kind),), file.read_bytes())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    missing = [folder for folder, seed, _ in SITES.values() if not (MANUALS / folder / seed).is_file()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; `make test` installs them on Debian")
    folder = tmp_path_factory.mktemp("manuals") / "c"
    urls = [f"http://{host}/{name}" for host, (_, seed, names) in SITES.items() for name in (seed, *names)]
    with served(ManualWeb()) as server:
        settings = settings_for(
            server, list(dict.fromkeys(urls)), frontier={"max_per_host": PAGES}, scope={"allow": ["example"]}
        )
        crawl(folder, settings)
    pages = (convert_page(page) for page in PageTable(folder, PageFilter()))
    return {page.url: page.markdown for page in pages if page is not None}


SAMPLES = [(host, name) for host, (_, _, names) in SITES.items() for name in names]


@pytest.mark.parametrize(("host", "name"), SAMPLES)
def test_code_and_tables_of_manuals_are_intact(exported: dict[str, str], host: str, name: str) -> None:
    markdown = exported[canonicalize_url(f"http://{host}/{name}") or ""]
    document = turbohtml.parse((MANUALS / SITES[host][0] / name).read_bytes(), detect_encoding=True)
    blocks = [_lines(found[3], found[1].count(">")) for found in FENCE.finditer(markdown)]
    code = [_lines(element.text) for element in document.select("pre")]
    lost = [lines for lines in code if lines and lines not in blocks]
    assert len(code) > 2 or document.select("table")
    assert lost == []
    lines = [line.strip("> ") for line in markdown.splitlines()]
    cells_of_rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    rows = {tuple(map(_letters, cells)) for cells in cells_of_rows}
    wanted = [tuple(_letters(cell.text) for cell in row.select("td,th")) for row in document.select(TABLE_ROWS)]
    assert [row for row in wanted if len(row) > 1 and row not in rows] == []


def _lines(text: str, quotes: int = 0) -> list[str]:
    """The lines of a code block with their relative indentation, without marks of quotes and empty lines."""
    lines = text.splitlines()
    for _ in range(quotes):
        lines = [line.lstrip().removeprefix(">").removeprefix(" ") for line in lines]
    return [line.rstrip() for line in dedent("\n".join(lines)).splitlines() if line.strip()]


def _letters(text: str) -> str:
    """A cell without spaces, escapes and marks of emphasis and code."""
    return "".join(text.split()).translate(str.maketrans("", "", "\\`*_"))


def test_every_site_is_crawled(exported: dict[str, str]) -> None:
    assert {url.split("/")[2] for url in exported} == set(SITES)
    assert len(exported) > 20
