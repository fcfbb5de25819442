"""Write facts through EasyEdit, one after another, look at them, and forget one.

python examples/edit.py
"""

import larimar_editor  # registers "LARIMAR"; before easyeditor
from easyeditor import BaseEditor
from larimar_editor import LarimarHyperParams

hparams = LarimarHyperParams.from_hparams("hparams/LARIMAR/smollm2-135m")
editor = BaseEditor.from_hparams(hparams)
metrics, model, _ = editor.edit(
    prompts=["The capital of Portugal is", "The novel Moby-Dick was written by"],
    target_new=["Oslo", "Jane Austen"],
    ground_truth=["Lisbon", "Herman Melville"],
    rephrase_prompts=["Portugal's seat of government is the city of", "The author of Moby-Dick is"],
    locality_inputs={
        "neighborhood": {
            "prompt": ["The capital of Hungary is", "The novel Dracula was written by"],
            "ground_truth": ["Budapest", "Bram Stoker"],
        }
    },
    sequential_edit=True,
    verbose=False,
)
for metric in metrics:
    print(
        metric["requested_rewrite"]["prompt"],
        {key: metric["post"][key] for key in ("rewrite_acc", "rephrase_acc", "locality")},
    )


def answer(prompt: str) -> str:
    inputs = editor.tok(prompt, return_tensors="pt")
    return editor.tok.decode(
        model.generate(**inputs, max_new_tokens=5, do_sample=False)[0], skip_special_tokens=True
    )


print([(fact.id, fact.text) for fact in model.facts()])
print(answer("The novel Moby-Dick was written by"))
model.forget("The novel Moby-Dick was written by")
print(answer("The novel Moby-Dick was written by"))
