"""`opilio lab demo`, which `make demo` runs: it ends with a table, a collection and what to do next."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opilio.cli.demo import demo, demo_proxy
from opilio.core.errors import UsageError
from opilio.core.settings import Settings
from opilio.manage.status import collection_status
from opilio.manage.verify import verify

OPILIO = (sys.executable, "-c", "from opilio.cli.main import main; main()")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a short demo printed, and where."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*OPILIO, "lab", "demo", "--pages", "100"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, folder / "demo"


def test_demo_prints_the_harvest_of_both_crawls(shown: tuple[str, Path]) -> None:
    row = re.search(r"│\s+100 │\s+(\d+) │\s+(\d\.\d\d) │\s+(\d+) │\s+(\d\.\d\d) │", shown[0])
    assert row
    assert (int(row[1]) / 100, int(row[3]) / 100) == (float(row[2]), float(row[4]))


def test_demo_ends_with_the_way_to_the_live_web(shown: tuple[str, Path]) -> None:
    assert re.search(r"opilio crawl .* --seed https://", shown[0])


@pytest.mark.parametrize("strategy", [Settings().strategy, "breadth"])
def test_demo_leaves_a_sound_collection(shown: tuple[str, Path], strategy: str) -> None:
    folder = shown[1] / strategy
    assert collection_status(folder).fetched == 100
    assert verify(folder) == []


def test_collection_of_the_demo_is_resumed_in_the_web_of_the_demo(shown: tuple[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(shown[1], tmp_path / "demo")) / "breadth"
    words = ("crawl", "--quiet", "--into", str(copy), "--set", "stop.fetches=130")
    done = subprocess.run([*OPILIO, *words], capture_output=True, text=True, check=False)
    after = collection_status(copy)
    assert (done.returncode, after.fetched) == (0, 130), done.stderr
    assert after.pages > collection_status(shown[1] / "breadth").pages


def test_another_crawl_beside_the_demo_is_not_sent_to_its_web(shown: tuple[str, Path]) -> None:
    with demo_proxy(shown[1] / "mine") as proxy:
        assert proxy is None


def test_demo_touches_no_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="was not made by the demo"):
        demo(into=str(tmp_path))
    assert (tmp_path / "thesis.txt").exists()


def test_demo_names_the_subjects_when_one_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="known: birds"):
        demo(into=str(tmp_path / "demo"), topic="trains")
    assert not (tmp_path / "demo").exists()
