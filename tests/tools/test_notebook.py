"""The notebook runs from top to bottom, and says what its text says."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


def said(cell):
    """What a cell printed."""
    return "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")


def test_the_tour_runs_offline(tmp_path):
    notebook = nbformat.read(TOUR, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, one, same, many, forgotten, picture, compared = [c for c in notebook.cells if c.cell_type == "code"]
    assert "The mother tongue of Danielle Darrieux is -> English" in said(one)
    assert "Danielle Darrieux was born in -> English" not in said(one)
    assert "the same to the bit: True" in said(same)
    for answer in ("seven green bottles", "the third of November", "1871", "count to twelve"):
        assert answer in said(many)
    first, second = said(forgotten).splitlines()
    assert "Ingrid" not in first and second.startswith("put back: Ingrid Aune")
    assert any("image/png" in output.get("data", {}) for output in picture.outputs)
    table = next(output["data"]["text/plain"] for output in compared.outputs if "data" in output)
    assert "LARIMAR" in table and "ROME" in table
