"""Write facts through EasyEdit, one after another, look at them, and forget one.

python examples/easyedit_sequential.py
"""

import larimar_editor  # registers "LARIMAR"; before easyeditor
from easyeditor import BaseEditor
from larimar_editor import LarimarHyperParams

hparams = LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m")
editor = BaseEditor.from_hparams(hparams)
metrics, model, _ = editor.edit(
    prompts=["The capital of Portugal is", "The novel Moby-Dick was written by"],
    target_new=["Oslo", "Jane Austen"],
    ground_truth=["Lisbon", "Herman Melville"],
    rephrase_prompts=["Portugal's seat of government is the city of", "The author of Moby-Dick is"],
    locality_inputs={
        "capitals and authors": {
            "prompt": ["The capital of Hungary is", "The novel Dracula was written by"],
            "ground_truth": ["Budapest", "Bram Stoker"],
        }
    },
    sequential_edit=True,
    verbose=False,
)
for metric in metrics:
    post = metric["post"]
    locality = post["locality"]["capitals and authors_acc"][0]
    rewrite, rephrase = post["rewrite_acc"][0], post["rephrase_acc"][0]
    print(f"rewrite {rewrite:.2f}, rephrase {rephrase:.2f}, locality {locality:.2f}")
for fact in model.facts():
    print(fact.id, fact.text)
model.forget("The novel Moby-Dick was written by")
print([fact.text for fact in model.facts()])

# prints:
# rewrite 1.00, rephrase 1.00, locality 1.00
# rewrite 1.00, rephrase 1.00, locality 1.00
# 1 The capital of Portugal is Oslo
# 2 The novel Moby-Dick was written by Jane Austen
# ['The capital of Portugal is Oslo']
