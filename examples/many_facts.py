"""Hundreds of facts at once, kept in a file, read by another model, and what has changed since.

python examples/many_facts.py [file]
"""

import sys

from larimar_editor import LarimarForCausalLM
from larimar_editor.data.relations import Names, RephrasedFacts, read_relations
from larimar_editor.state.edited import diff

file = sys.argv[1] if len(sys.argv) > 1 else "results/many-facts.db"
made_up = RephrasedFacts(read_relations(), Names(), seed=7)
facts = [{key: made_up[number][key] for key in ("prompt", "target_new")} for number in range(200)]

model = LarimarForCausalLM.from_pretrained("smollm2-135m")
written = model.write(facts)
print(len(written), "facts written in one block; the last:", written[-1].text)
model.save_state(file)

another = LarimarForCausalLM.from_pretrained("smollm2-135m")
another.load_state(file)
before = another.edited_state
another.forget(written[0])
another.write([{"prompt": written[-1].prompt, "target_new": "nobody knows"}])
change = diff(before, another.edited_state)
print("forgotten:", [fact.text for fact in change.forgotten])
print("changed:", [(old.target_new, new.target_new) for old, new in change.changed])
another.undo()
print(len(another.facts()), "facts after undoing that;", len(model.facts()), "in the first model, as before")

# prints:
# 200 facts written in one block; the last: Vega Z3 comes in brown
# forgotten: ['The father of Priya Wilson is Charles Hansen']
# changed: [('brown', 'nobody knows')]
# 199 facts after undoing that; 200 in the first model, as before
