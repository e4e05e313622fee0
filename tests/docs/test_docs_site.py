"""The documentation is a site: built strictly, so that every link, anchor and page of the navigation exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USERS = ("browser", "rag-corpus", "curator", "journalist", "search-engineer")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_site_has_every_page_and_tutorial(site: Path) -> None:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"]
    assert [page.name for page in pages if not (site / page.stem / "index.html").is_file()] == []
    home = (site / "index.html").read_text(encoding="utf-8")
    assert [name for name in USERS if f'href="tutorials/{name}/"' not in home] == []


@pytest.mark.slow
def test_site_loads_nothing_from_other_servers(site: Path) -> None:
    loads = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(https?:|//)""")
    found = [page for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))]
    assert [page.relative_to(site).as_posix() for page in found] == []
