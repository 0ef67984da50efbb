"""The notebooks run from top to bottom, and are committed without what they printed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weftway.scenario import HOME

NOTEBOOKS = sorted((HOME / "examples/notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text())["cells"]
    return cells


def code(notebook: Path) -> str:
    """The code of all cells as one program. A notebook shows the last expression of a cell; here it is computed."""
    return "\n\n".join("".join(cell["source"]) for cell in cells(notebook) if cell["cell_type"] == "code")


def test_there_is_one_for_each_way() -> None:
    assert {file.stem for file in NOTEBOOKS} == {file.stem for file in HOME.glob("docs/start/*.md")}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_has_no_outputs(notebook: Path) -> None:
    for cell in cells(notebook):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    if "gymnasium" in code(notebook):
        pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")
    try:
        import nbclient
        import nbformat
    except ImportError:
        done = subprocess.run([sys.executable, "-c", code(notebook)], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    else:
        read = nbformat.read(notebook, as_version=4)
        nbclient.NotebookClient(read, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
