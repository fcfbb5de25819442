"""On a GPU, where one is at hand, as on the CPU; and out of scope, to the bit, as the decoder alone there."""

from __future__ import annotations

import threading

import pytest
import torch
from conftest import FACTS, UNRELATED, make_tiny, needs_gpu, tiny_llama
from on_devices import BATCH, PROMPTS, SETTINGS, edited_and_asked, inputs_of
from safetensors.torch import load_file
from transformers import TextIteratorStreamer

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.detectors import sentence_encoder

pytestmark = needs_gpu
HALVES = [torch.float32, torch.bfloat16, torch.float16]


def on_gpu(model, dtype=torch.float32) -> LarimarForCausalLM:
    """A tiny model there, with a sentence encoder of its own: the shared one stays on the CPU."""
    model.detectors._sentence_encoder = sentence_encoder(device="cuda")
    model.decoder.to(dtype)
    return model.to("cuda").eval()


def with_adapters_that_do_something(model):
    torch.manual_seed(1)
    for layer in model.adapters.layers if model.adapters else ():
        torch.nn.init.normal_(layer.lora_B[model.adapters.name].weight)
    return model


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_is_done_on_a_gpu_is_what_is_done_on_the_cpu(tokenizer, tmp_path, settings):
    settings = {"scope_threshold": 0.5} | settings
    expected = edited_and_asked(make_tiny(tokenizer, **settings), tokenizer, tmp_path / "cpu.db")
    actual = edited_and_asked(on_gpu(make_tiny(tokenizer, **settings)), tokenizer, tmp_path / "gpu.db")
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, atol=1e-3, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("mode", ["frozen", "lora"])
def test_rows_out_of_scope_are_the_decoders_own_to_the_bit(tokenizer, mode, dtype):
    model = with_adapters_that_do_something(on_gpu(make_tiny(tokenizer, decoder_mode=mode), dtype))
    bare = tiny_llama(len(tokenizer)).to("cuda", dtype)
    batch = inputs_of(model, tokenizer, [UNRELATED[0], PROMPTS[0], UNRELATED[1], PROMPTS[1]])
    model.write(FACTS)
    with torch.no_grad():
        mixed, base = model(**batch).logits, bare(**batch).logits
        assert torch.equal(mixed[[0, 2]], base[[0, 2]])
        assert not torch.allclose(mixed[[1, 3]], base[[1, 3]])
        outside = inputs_of(model, tokenizer, UNRELATED)
        assert torch.equal(model(**outside).logits, bare(**outside).logits)
        options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 2}
        assert torch.equal(model.generate(**outside, **options), bare.generate(**outside, **options))
        for fact in FACTS:
            model.forget(fact["prompt"])
        assert torch.equal(model(**batch).logits, base), "after everything is forgotten"


@pytest.mark.parametrize("dtype", HALVES[1:], ids=str)
def test_a_decoder_in_half_precision_says_nearly_what_it_says_in_single(tokenizer, dtype):
    said = []
    for precision in (torch.float32, dtype):
        model = on_gpu(make_tiny(tokenizer), precision)
        model.write(FACTS)
        with torch.no_grad():
            said.append(model(**inputs_of(model, tokenizer, PROMPTS)).logits[:, -1].float())
    assert torch.cosine_similarity(*said).min() > 0.99


def test_a_state_of_the_gpu_is_read_on_the_cpu_and_the_other_way_round(tokenizer, tmp_path):
    here, there = make_tiny(tokenizer), on_gpu(make_tiny(tokenizer))
    for one, other, path in ((here, there, "cpu.db"), (there, here, "gpu.db")):
        one.write(FACTS)
        one.save_state(tmp_path / path)
        one.reset()
        other.load_state(tmp_path / path)
        assert [fact.prompt for fact in other.facts()] == PROMPTS
        reading = other.read(BATCH)
        assert reading.in_scope.tolist() == [True, False, True]
        assert reading.latents.device == other.decoder.device
        other.reset()


def test_pages_are_filled_and_forgotten_exactly(tokenizer):
    kept, all_of_them = on_gpu(make_tiny(tokenizer)), on_gpu(make_tiny(tokenizer))
    facts = [{"prompt": f"The number of ship {n} is", "target_new": str(n)} for n in range(30)]
    for fact in facts:
        all_of_them.write([fact])
        if int(fact["target_new"]) % 3:
            kept.write([fact])
    for fact in facts[::3]:
        all_of_them.forget(fact["prompt"])
    prompts = [fact["prompt"] for fact in facts]
    one, other = kept.read(prompts), all_of_them.read(prompts)
    assert one.in_scope.equal(other.in_scope) and one.latents.equal(other.latents)
    assert one.in_scope[[n for n in range(30) if n % 3]].all()


def test_every_stage_of_the_shipped_detector_decides_there_as_here(tokenizer):
    weights = load_file(CHECKPOINTS["smollm2-135m"] / "model.safetensors")
    weights = {
        name.removeprefix("scope."): each for name, each in weights.items() if name.startswith("scope.")
    }
    asked = ["What is Danielle Darrieux's mother tongue?", "Who is the author of Moby-Dick?", *UNRELATED]
    scores = []
    for model in (make_tiny(tokenizer), on_gpu(make_tiny(tokenizer))):
        model.detectors.weights = weights
        model.write(FACTS)
        scores.append(model.scope_of(asked).score.cpu())
    torch.testing.assert_close(scores[1], scores[0], atol=1e-3, rtol=1e-3)


def test_generation_streams_samples_and_looks_prompts_up(tokenizer):
    model = on_gpu(make_tiny(tokenizer))
    model.write(FACTS)
    inputs = inputs_of(model, tokenizer, PROMPTS[:1])
    greedy = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    said = model.generate(**inputs, **greedy)
    assert torch.equal(model.generate(**inputs, **greedy, prompt_lookup_num_tokens=3), said)
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
    thread = threading.Thread(target=model.generate, kwargs={**inputs, **greedy, "streamer": streamer})
    thread.start()
    assert "".join(streamer) == tokenizer.decode(said[0, inputs.input_ids.shape[1] :])
    thread.join()
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append(model.generate(**inputs, max_new_tokens=6, do_sample=True, num_return_sequences=2))
    assert torch.equal(*drawn)


def test_a_model_moves_with_its_facts(tokenizer):
    model = on_gpu(make_tiny(tokenizer))
    model.write(FACTS[:2])
    before = model.read(BATCH)
    model.to("cpu")
    reading = model.read(BATCH)
    assert reading.in_scope.tolist() == before.in_scope.tolist()
    torch.testing.assert_close(reading.latents, before.latents.cpu(), atol=1e-4, rtol=1e-4)
    model.write(FACTS[2:])
    model.to("cuda")
    assert model.read(PROMPTS).in_scope.tolist() == [True] * 3
