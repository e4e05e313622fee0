"""The page about the Python API is true: its examples run, and it names everything that is exported."""

import doctest
from pathlib import Path

import pytest

import opilio

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.FAIL_FAST
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert (failed, tried > 30) == (0, True)


def test_exported_names_are_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in opilio.__all__ if f"`{name}`" not in text and f"`opilio.{name}`" not in text] == []
