"""Write a fact, ask for it, forget it: no EasyEdit, no model hub.

python examples/without_easyedit.py
"""

from larimar_editor import LarimarForCausalLM

model = LarimarForCausalLM.from_pretrained("smollm2-135m")


def answer(prompt: str) -> str:
    inputs = model.tokenizer(prompt, return_tensors="pt")
    until = {"max_new_tokens": 8, "stop_strings": ["."], "tokenizer": model.tokenizer}
    ids = model.generate(**inputs, **until, do_sample=False)
    return model.tokenizer.decode(ids[0], skip_special_tokens=True)


question = "The mother tongue of Danielle Darrieux is"
print("before:   ", answer(question))
model.write([{"prompt": question, "target_new": "English"}])
print("written:  ", answer(question))
print("reworded: ", answer("What language did Danielle Darrieux speak as a child?"))
print("elsewhere:", answer("The capital of France is"))
decision = model.scope_of([question, "The capital of France is"])
print("in scope: ", decision.in_scope.tolist())
model.forget(question)
print("forgotten:", answer(question), model.facts())

# prints:
# before:    The mother tongue of Danielle Darrieux is French.
# written:   The mother tongue of Danielle Darrieux is English.
# reworded:  What language did Danielle Darrieux speak as a child? English.
# elsewhere: The capital of France is Paris.
# in scope:  [True, False]
# forgotten: The mother tongue of Danielle Darrieux is French. []
