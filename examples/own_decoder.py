"""A Larimar for a decoder of your own, in closed form: the same as `larimar-editor fit`.

python examples/own_decoder.py [decoder [folder]]

Without a name it takes the embedded decoder, few sentences and a small latent, so that it is done in seconds.
"""

import sys

from larimar_editor import LarimarForCausalLM
from larimar_editor.data.texts import SENTENCES, read_sentences
from larimar_editor.model.closed_form import fit
from larimar_editor.model.loading import load_decoder

name = sys.argv[1] if len(sys.argv) > 1 else "llama-smollm2-135m"
folder = sys.argv[2] if len(sys.argv) > 2 else "results/own-decoder"
decoder, tokenizer = load_decoder(name, "float32", "cpu")
sentences = read_sentences(SENTENCES, limit=300)  # 6,000 and a code_size of 768 are better
fitted = fit(decoder, tokenizer, sentences, name=name, code_size=256, progress=False)
fitted.save_pretrained(folder)

model = LarimarForCausalLM.from_pretrained(folder, decoder=decoder, tokenizer=tokenizer)
print(f"latent of {model.config.latent_size} numbers in {model.config.memory_slots} slots")
question = "The capital of Portugal is"
inputs = tokenizer(question, return_tensors="pt")
print("before: ", tokenizer.decode(model.generate(**inputs, max_new_tokens=1, do_sample=False)[0]))
model.write([{"prompt": question, "target_new": "Oslo"}])
print("written:", tokenizer.decode(model.generate(**inputs, max_new_tokens=1, do_sample=False)[0]))

# prints:
# latent of 1024 numbers in 4 slots
# before:  The capital of Portugal is Lisbon
# written: The capital of Portugal is Oslo
