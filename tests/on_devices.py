"""What is done on a device and what came of it, to be compared between devices."""

from __future__ import annotations

import torch
from conftest import FACTS, UNRELATED

PROMPTS = [fact["prompt"] for fact in FACTS]
BATCH = [PROMPTS[0], UNRELATED[0], PROMPTS[1]]
SETTINGS: list[dict] = [
    {},
    {"memory": "fixed"},
    {"memory": "fixed", "addressing": "pseudoinverse", "reference": "random", "key_encoding": "latent"},
    {"decoder_mode": "lora", "after_answer": "base"},
    {"rest_dtype": "float16", "addressed_by": "query"},
    {"scope": "none"},
]


def inputs_of(model, tokenizer, texts):
    """Padded on the left, where the model is."""
    return tokenizer(texts, return_tensors="pt", padding=True, padding_side="left").to(model.decoder.device)


def edited_and_asked(model, tokenizer, path):
    """Everything that touches a device, and what came of it."""
    model.write(FACTS[:2])
    model.write(FACTS[2:])
    model.forget(PROMPTS[2])
    model.write([FACTS[2] | {"target_new": "Herman Melville himself"}])
    model.undo()
    inputs = inputs_of(model, tokenizer, BATCH)
    reading = model.read(BATCH)
    with torch.no_grad():
        logits = model(**inputs).logits
        loss = model(**inputs, labels=inputs.input_ids).loss
    ids = model.generate(**inputs, max_new_tokens=4, do_sample=False)
    beams = model.generate(**inputs, max_new_tokens=3, num_beams=2, do_sample=False)
    model.save_state(path)
    model.load_state(path)
    again = model.generate(**inputs, max_new_tokens=4, do_sample=False, use_cache=False)
    return {
        "in_scope": reading.in_scope.cpu(),
        "latents": reading.latents.cpu(),
        "logits": logits.cpu(),
        "loss": loss.cpu(),
        "ids": ids.cpu(),
        "beams": beams.cpu(),
        "again": again.cpu(),
    }
