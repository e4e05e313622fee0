"""A small synthetic web, written once, and the real webs where they are present."""

import os
from pathlib import Path

import pytest

from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.web import WarcWeb

SMALL = WebShape(
    pages=150, hosts=6, topics=2, trap_pages=8, seed_sets=2, mirrors=0.05, near_mirrors=0.05, redirects=0.05
)


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_synthetic_web(SMALL, tmp_path_factory.mktemp("webs") / "small")


@pytest.fixture(scope="session")
def lab_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def small_web(small_folder: Path, lab_cache: Path) -> WarcWeb:
    return WarcWeb.open(small_folder, lab_cache)


@pytest.fixture(scope="session")
def real_webs() -> Path:
    default = Path(__file__).resolve().parents[2].parent / "shared" / "webs"
    folder = Path(os.environ.get("OPILIO_WEBS", default))
    if not folder.is_dir():
        pytest.skip("no real webs: set OPILIO_WEBS to a folder that holds them")
    return folder
