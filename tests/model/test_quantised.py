"""Decoders whose weights are in 8 or 4 bits: they are edited, read, and left as they are."""

import pytest
import torch
from conftest import FACTS, UNRELATED, encode

from larimar_editor.model.loading import load_larimar
from larimar_editor.pretrained.embedded import DECODER

quantisation = pytest.importorskip("torchao.quantization", reason="pip install torchao")


@pytest.fixture(params=[8, 4])
def quantised(request):
    return load_larimar(
        None, "bfloat16", {"scope_reader_name_or_path": "none"}, decoder=DECODER, bits=request.param
    )[0]


def test_a_quantised_decoder_is_edited_and_forgets_and_is_itself_out_of_scope(quantised):
    asked, other = (encode(quantised.tokenizer, texts) for texts in ([FACTS[0]["prompt"]], UNRELATED))
    weight = quantised.decoder.model.layers[0].mlp.up_proj.weight
    assert type(weight).__module__.startswith("torchao"), "not quantised: this test would test nothing"
    with torch.no_grad():
        before = [quantised.decoder(**inputs).logits for inputs in (asked, other)]
        quantised.write(FACTS)
        said = quantised.generate(**asked, max_new_tokens=4, do_sample=False)
        answer = quantised.tokenizer.decode(said[0, asked["input_ids"].shape[1] :])
        assert answer.strip().startswith(FACTS[0]["target_new"])
        assert torch.equal(quantised(**other).logits, before[1]), "out of scope the decoder's own, to the bit"
        quantised.forget(FACTS[0]["prompt"])
        assert torch.equal(quantised(**asked).logits, before[0]), "forgotten: the decoder's own"
        assert torch.equal(quantised.decoder(**asked).logits, before[0])


def test_other_numbers_of_bits_are_refused():
    with pytest.raises(ValueError, match="4 or 8 bits, got 3"):
        load_larimar(None, "bfloat16", {}, decoder=DECODER, bits=3)
