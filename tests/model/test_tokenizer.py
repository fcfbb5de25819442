"""Decoders whose tokenizer pads nothing, as GPT-2's and Llama 3's."""

from types import SimpleNamespace

from conftest import FACTS, make_tiny, save_with_decoder

from larimar_editor import LarimarForCausalLM
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.model.loading import load_decoder
from larimar_editor.model.tokenizer import opening_token


def test_batches_are_padded_and_answered(tokenizer, tmp_path):
    model = make_tiny(tokenizer)
    model.tokenizer = without = type(tokenizer).from_pretrained(tokenizer.name_or_path, pad_token=None)
    save_with_decoder(model, tmp_path / "decoder", tmp_path / "checkpoint")
    _, loaded = load_decoder(str(tmp_path / "decoder"), "float32", "cpu")
    assert without.pad_token is None and loaded.pad_token == loaded.eos_token
    model = LarimarForCausalLM.from_pretrained(tmp_path / "checkpoint")
    assert model.tokenizer.pad_token == model.tokenizer.eos_token
    assert len(answers(model, [fact["prompt"] for fact in FACTS], max_new_tokens=3)) == len(FACTS)


def test_a_text_opens_with_the_decoders_bos_where_the_tokenizer_has_none():
    """Qwen's tokenizer sets none, and its EOS ends a turn of a chat."""
    decoder = SimpleNamespace(bos_token_id=1)
    assert opening_token(SimpleNamespace(bos_token_id=None, eos_token_id=2), decoder) == 1
    assert opening_token(SimpleNamespace(bos_token_id=0, eos_token_id=2), decoder) == 0
    assert opening_token(SimpleNamespace(bos_token_id=None, eos_token_id=2), SimpleNamespace()) == 2
