"""Find the threshold of the scope detector on edits of your own: the same as `larimar-editor calibrate`.

python examples/calibrate_scope.py [edits.json]
"""

import sys

from larimar_editor import LarimarForCausalLM
from larimar_editor.checkpoints import shipped
from larimar_editor.data.edits import load_edits
from larimar_editor.scope.calibration import calibrate

model = LarimarForCausalLM.from_pretrained(shipped("llama-smollm2-135m"))
print(calibrate(model.detectors.current, load_edits(*sys.argv[1:2])))
