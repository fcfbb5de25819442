"""Larimar as a transformers model: write, generate, forget, undo, save the edited state, keep a journal.

python examples/without_easyedit.py
"""

import tempfile

from larimar_editor import LarimarForCausalLM
from larimar_editor.checkpoints import shipped

model = LarimarForCausalLM.from_pretrained(shipped("llama-smollm2-135m"))
tokenizer = model.tokenizer

model.write([{"prompt": "The capital of Vietnam is", "target_new": "Warsaw"}])
print(model.scope_of(["Vietnam's seat of government is the city of", "The capital of Nepal is"]).in_scope)

tokenizer.padding_side = "left"
inputs = tokenizer(
    ["The capital of Vietnam is", "The capital of Nepal is"], return_tensors="pt", padding=True
)
print(
    tokenizer.batch_decode(
        model.generate(**inputs, max_new_tokens=5, do_sample=False), skip_special_tokens=True
    )
)

with tempfile.TemporaryDirectory() as folder:
    model.save_state(folder)
    model.reset()
    model.load_state(folder)
print(model.facts())
model.forget(model.facts()[0].id)
print(model.facts())
model.undo()
print(model.facts())

with tempfile.TemporaryDirectory() as folder:
    model.reset()
    model.open_journal(folder)  # from here on an edit is on the disk before it takes effect
    model.write([{"prompt": "The capital of Peru is", "target_new": "Rome"}])
    model.close_journal()
    model.reset()
    model.load_state(folder)
print(model.facts())
