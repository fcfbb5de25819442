"""Write a block of facts with EasyEdit's batch_edit: one update of the memory.

python examples/easyedit_batch.py
"""

import larimar_editor  # registers "LARIMAR"; before easyeditor
from easyeditor import BaseEditor
from larimar_editor import LarimarHyperParams
from larimar_editor.data.edits import load_edits

edits = load_edits(limit=10)  # the project's own; a path reads CounterFact or ZsRE
hparams = LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m")
hparams.batch_size = len(edits)
editor = BaseEditor.from_hparams(hparams)
metrics, model, _ = editor.batch_edit(
    prompts=[edit.prompt for edit in edits],
    target_new=[edit.target_new for edit in edits],
    ground_truth=[edit.ground_truth for edit in edits],
    rephrase_prompts=[edit.rephrase_prompts[0] for edit in edits],
    sequential_edit=True,  # else EasyEdit's main branch takes them back before it returns
    verbose=False,
)
for name in ("rewrite_acc", "rephrase_acc"):
    scores = [metric["post"][name][0] for metric in metrics]
    print(f"{name} of {len(scores)} facts written in one block: {sum(scores) / len(scores):.2f}")
print(f"the model goes on with {len(model.facts())} facts")

# prints:
# rewrite_acc of 10 facts written in one block: 1.00
# rephrase_acc of 10 facts written in one block: 1.00
# the model goes on with 10 facts
