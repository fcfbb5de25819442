"""Find the threshold of the scope detector on edits of your own: the same as `larimar-editor calibrate`.

python examples/calibrate_scope.py [edits.json]
"""

import sys

from larimar_editor import LarimarForCausalLM
from larimar_editor.calibration import calibrate
from larimar_editor.checkpoints import shipped
from larimar_editor.data import load_edits

model = LarimarForCausalLM.from_pretrained(shipped("llama-smollm2-135m"))
print(calibrate(model.episodic.detector, load_edits(*sys.argv[1:2])))
