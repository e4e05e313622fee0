"""What commands print and write: counted nouns, files and folders that an option names."""

from pathlib import Path

import pytest

from opilio.core.display import pluralize
from opilio.core.errors import UsageError
from opilio.core.files import make_writable_folder, require_new_file, write_output


@pytest.mark.parametrize(
    ("number", "noun", "shown"), [(1, "page", "1 page"), (0, "page", "0 pages"), (2_000, "fetch", "2,000 fetches")]
)
def test_noun_follows_its_number(number: int, noun: str, shown: str) -> None:
    assert pluralize(number, noun) == shown


def test_file_that_exists_is_refused_with_its_option(tmp_path: Path) -> None:
    require_new_file("--out", None)
    require_new_file("--out", tmp_path / "new")
    with pytest.raises(UsageError, match=r"^--out .*: already exists; choose another name$"):
        require_new_file("--out", tmp_path)


def test_output_is_written_whole(tmp_path: Path) -> None:
    write_output("--out", tmp_path / "table.csv", b"a,b\n")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("table.csv", b"a,b\n")]


def test_output_that_cannot_be_written_names_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"^--out .*: can't be written: "):
        write_output("--out", tmp_path / "file" / "table.csv", b"")
    with pytest.raises(UsageError, match=r"^--folder .*: can't be written: "):
        make_writable_folder("--folder", tmp_path / "file" / "deep")


def test_missing_folder_of_an_option_is_created(tmp_path: Path) -> None:
    make_writable_folder("--folder", tmp_path / "new" / "deep")
    assert [*(tmp_path / "new" / "deep").iterdir()] == []
