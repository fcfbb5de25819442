"""Larimar beside ROME on five edits: the same as `larimar-editor compare`.

python examples/compare.py
"""

from pathlib import Path

import larimar_editor  # noqa: F401  makes EasyEdit importable
from larimar_editor.data import load_edits
from larimar_editor.easyedit.comparison import compare
from larimar_editor.evaluation.report import write_comparison

out = Path("results/example")
rows = compare(["LARIMAR", "ROME"], load_edits(limit=5), out, Path("hparams"))
print(write_comparison(rows, out, {"edits": 5}))
