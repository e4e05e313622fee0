"""Text of the web can't command a terminal, a spreadsheet or a reader of Markdown."""

import re
from html import escape
from pathlib import Path

import pytest

from checks.small_webs import BIRDS, HTML, SmallWeb, crawl, opilio, served, settings_for
from opilio.fetch.decoding import RecordedResponse

URL = "http://h0.example/"
# A title of the window, a colour, the same with the eight-bit character, a change of direction, back over a character.
HOSTILE = "wren \x1b]0;owned\x07 \x1b[31m \x9b2J \u202eevil\u202c \x08\x7f bird"
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = escape(HOSTILE)
    body = (
        f"<html><head><title>{text}</title><meta name=author content='{text}'><meta name=description content='{text}'>"
        f"</head><body><h1>{text}</h1><p>{BIRDS} {text}</p><pre>{text}</pre><a href=/next>{text}</a></body></html>"
    )
    place = tmp_path_factory.mktemp("hostile") / "c"
    with served(SmallWeb({URL: RecordedResponse(200, (HTML,), body.encode())})) as server:
        crawl(place, settings_for(server, [URL]))
    return place


@pytest.mark.parametrize(
    "words", [("search", "DIR", "wren"), ("why", "DIR", URL), ("why", "DIR", f"{URL}next"), ("history", "DIR", URL)]
)
def test_command_shows_no_characters_that_a_terminal_obeys(folder: Path, words: tuple[str, ...]) -> None:
    done = opilio(*(str(folder) if part == "DIR" else part for part in words))
    assert done.returncode == 0, done.stderr
    assert "wren" in done.stdout
    assert not CONTROLS.search(done.stdout + done.stderr)
    assert not DIRECTIONS.search(done.stdout + done.stderr)


@pytest.mark.parametrize("form", ["csv", "bibtex", "ris", "cdxj"])
def test_export_has_no_control_characters(folder: Path, form: str) -> None:
    done = opilio("export", folder, "--format", form)
    assert done.returncode == 0, done.stderr
    assert not CONTROLS.search(done.stdout)


def test_markdown_files_have_no_control_characters(folder: Path, tmp_path: Path) -> None:
    assert opilio("export", folder, "--format", "markdown", "--out", tmp_path / "pages").returncode == 0
    (file,) = (tmp_path / "pages").rglob("*.md")
    assert "wren" in file.read_text()
    assert not CONTROLS.search(file.read_text())
