"""A Larimar for a decoder of your own, in closed form: the same as `larimar-editor fit`.

python examples/fit_another_decoder.py gpt2 my_sentences.txt checkpoints/larimar-gpt2
"""

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

from larimar_editor import LarimarForCausalLM
from larimar_editor.data.texts import read_sentences
from larimar_editor.model.closed_form import fit

name, text, out = sys.argv[1:]
decoder = AutoModelForCausalLM.from_pretrained(name).eval()
tokenizer = AutoTokenizer.from_pretrained(name)
fit(decoder, tokenizer, read_sentences(text, limit=6000), name=name).save_pretrained(out)

model = LarimarForCausalLM.from_pretrained(out, decoder=decoder, tokenizer=tokenizer)
print(model.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}]))
