"""The proposal to EasyEdit, applied to a scratch copy of a checkout."""

import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.easyedit.proposal import write_proposal

HOME = os.environ.get("EASYEDIT_HOME")


def scratch(folder):
    """A checkout as far as the proposal sees it."""
    files = {
        "easyeditor/models/__init__.py": "from .ft import *\nfrom .rome import *\n",
        "easyeditor/util/alg_dict.py": (
            "from ..models.rome import x\nfrom ..dataset import y\n\nALG_DICT = {\n    'ROME': x\n}\n"
        ),
        "README.md": "| ROME | |\n| [AlphaEdit](there) | |\nThe end\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_every_line_finds_its_place_and_a_second_run_changes_nothing(tmp_path):
    checkout = scratch(tmp_path)
    result = CliRunner().invoke(app, ["easyedit-patch", str(checkout)])
    assert result.exit_code == 0 and "easyeditor/models/larimar/larimar_main.py" in result.output
    methods = (checkout / "easyeditor/util/alg_dict.py").read_text()
    assert methods.startswith("from ..models.rome import x\nfrom ..models.larimar import")
    assert "ALG_DICT = {\n    'LARIMAR': apply_larimar_to_model,\n    'ROME': x" in methods
    compile(methods, "alg_dict.py", "exec")
    assert (checkout / "README.md").read_text().splitlines()[2].startswith("| [LARIMAR]")
    assert write_proposal(checkout) == []


def test_what_is_no_easyedit_is_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkout of EasyEdit in .* lacks easyeditor"):
        write_proposal(tmp_path)
    checkout = scratch(tmp_path)
    (checkout / "README.md").write_text("Nothing of methods here\n")
    with pytest.raises(ValueError, match=r"README.md has no place"):
        write_proposal(checkout)
    assert not (checkout / "examples").exists() and not (checkout / "easyeditor/models/larimar").exists()


@pytest.mark.skipif(not HOME, reason="needs EASYEDIT_HOME, a checkout of EasyEdit's main branch")
def test_a_patched_checkout_runs_its_own_example_and_test(tmp_path):
    checkout = tmp_path / "EasyEdit"
    shutil.copytree(HOME, checkout, ignore=shutil.ignore_patterns(".git", "figs", "steer", "demo"))
    write_proposal(checkout)
    environment = os.environ | {"EASYEDIT_HOME": str(checkout), "PYTHONPATH": str(checkout)}
    run = lambda *command: subprocess.run(
        [sys.executable, *command], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300
    )
    # EasyEdit's other methods import packages for images that are no part of an installation for text.
    example = run("-c", "import larimar_editor, runpy; runpy.run_path('examples/run_larimar.py')")
    assert example.returncode == 0, example.stderr[-2000:]
    assert "'rewrite_acc': [" in example.stdout
    tested = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "larimar_editor", "test/test_larimar.py"
    )
    assert tested.returncode == 0, tested.stdout[-2000:]
    assert "1 passed" in tested.stdout
