"""The tutorial notebook runs from top to bottom in a real kernel, and its cells show what the text promises."""

from pathlib import Path
from typing import Any

import pytest

from checks.small_webs import PATIENCE_S

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The outputs of each code cell, by the beginning of its source."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("tutorial"))}}
    nbclient.NotebookClient(notebook, timeout=PATIENCE_S, resources=place).execute()
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def shown(outputs: dict[str, list[Any]], part: str) -> str:
    """The HTML and the text of the cell whose source contains this part."""
    (found,) = [cell for source, cell in outputs.items() if part in source]
    data = [output.get("data", {}) for output in found]
    return "\n".join(d.get("text/html", "") + d.get("text/plain", "") for d in data)


def test_progress_is_one_table_with_the_last_figures(outputs: dict[str, list[Any]]) -> None:
    (cell,) = [cell for source, cell in outputs.items() if "opilio.crawl(topic.name" in source]
    progress, collection = (output for output in cell if "data" in output)
    assert "pages/s" in progress.data["text/html"]
    assert "fetch limit reached (100 fetches)" in collection.data["text/html"]
    assert not any("\x1b[" in output.get("text", "") for output in cell)


def test_results_are_displayed_as_html(outputs: dict[str, list[Any]]) -> None:
    assert "<ol" in shown(outputs, "birds.search(")
    assert "found on" in shown(outputs, "birds.why(")
    assert "verdicts changed" in shown(outputs, "birds.label(")
    assert "breadth" in shown(outputs, "opilio.compare(")
    assert "(150, " in shown(outputs, "await opilio.acrawl(")


def test_notebook_is_stored_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert [cell.source for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)] == []
