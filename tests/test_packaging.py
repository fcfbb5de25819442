"""What is installed: all that the package reads."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


# Curves of the training runs are linked from the checkpoint's card and read by nothing.
NOT_INSTALLED = {"__pycache__", "metrics"}


def files(folder):
    return {
        str(path.relative_to(folder))
        for path in (folder / "larimar_editor").rglob("*")
        if path.is_file() and not NOT_INSTALLED & {*path.parts}
    }


def test_every_file_of_the_package_is_installed(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert files(ROOT) - files(tmp_path) == set()
    settings = lambda folder: {str(path.relative_to(folder)) for path in folder.rglob("*.yaml")}
    for name in ("hparams", "configs"):
        assert settings(ROOT / name) == settings(tmp_path / "larimar_editor" / f"{name}_files")
