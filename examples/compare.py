"""Larimar beside ROME on five edits: the same as `larimar-editor compare`.

python examples/compare.py
"""

from pathlib import Path

from larimar_editor.easyedit.baselines.comparison import compare

import larimar_editor  # noqa: F401  makes EasyEdit importable
from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness.report import write_comparison

out = Path("results/example")
rows = compare(["LARIMAR", "ROME"], load_edits(limit=5), out, Path("hparams"))
print(write_comparison(rows, out, {"edits": 5}))
