"""What holds for any input: of addressing, scope, edited states, and of what people and disks hand us."""

import math
import os
import random
import sqlite3
import string
from contextlib import closing, suppress

import pytest
import torch
import yaml
from conftest import FACTS, UNRELATED, encode, make_tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from states import ORIGIN, blank, blank_fixed, less, put, write, written
from torch.nn import functional as F

from larimar_editor import LarimarHyperParams, UnknownFact
from larimar_editor.memory.addressing import gaussian_weights, pseudoinverse_weights
from larimar_editor.scope.decision import decide
from larimar_editor.scope.detectors import ExternalScopeDetector
from larimar_editor.scope.nearest import exact
from larimar_editor.state.fact import Fact
from larimar_editor.state.saved import load_state, save_state
from larimar_editor.utils.sentences import sentences

# Inputs of each fuzz test; `make soak` has 10,000.
FUZZ = int(os.environ.get("LARIMAR_FUZZ", 300))
fuzz = settings(
    max_examples=FUZZ, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- addressing


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 12),
    alpha=st.floats(1e-4, 10),
    scale=st.floats(1e-6, 1e6),
)
def test_gaussian_weights_are_a_distribution_that_moves_with_what_it_is_of(seed, rows, alpha, scale):
    Z, M_ref, shift = numbers(5, 4, seed=seed), numbers(rows, 4, seed=seed + 1), numbers(4, seed=seed + 2)
    W = gaussian_weights(Z, M_ref, alpha)
    assert bool((W >= 0).all()) and torch.allclose(W.sum(dim=1), torch.ones(5, dtype=torch.float64))
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(gaussian_weights(Z, M_ref[order], alpha), W[:, order])
    # The width is relative to the nearest row: neither a shift nor a change of units matters.
    torch.testing.assert_close(
        gaussian_weights((Z + shift) * scale, (M_ref + shift) * scale, alpha), W, atol=1e-5, rtol=1e-4
    )
    nearest = torch.cdist(Z, M_ref).argmin(dim=1)
    assert bool((W.argmax(dim=1) == nearest).all())


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), columns=st.integers(1, 6))
def test_pseudoinverse_weights_reach_as_near_as_rows_can(seed, rows, columns):
    Z, M = numbers(4, columns, seed=seed), numbers(rows, columns, seed=seed + 1)
    W = pseudoinverse_weights(Z, M)
    left = Z - W @ M
    torch.testing.assert_close(left @ M.T, torch.zeros(4, rows, dtype=torch.float64), atol=1e-7, rtol=0)
    torch.testing.assert_close(pseudoinverse_weights(3 * Z, M), 3 * W)


# --- scope


class Letters:
    """A detector without a network: unit vectors of letter counts."""

    threshold, embedding_size, look = 0.8, 26, None
    similarity = staticmethod(ExternalScopeDetector.similarity)

    @staticmethod
    def embed(texts):
        counts = [[text.lower().count(letter) for letter in string.ascii_lowercase] for text in texts]
        return F.normalize(torch.tensor(counts, dtype=torch.float32) + 1e-3, dim=1)


words = st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=6), min_size=1, max_size=5).map(
    " ".join
)


@settings(max_examples=150, deadline=None)
@given(
    query=words,
    more=st.lists(words, max_size=3),
    prompts=st.lists(words, min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_more_sentences_or_prompts_never_lower_a_score_and_order_does_not_matter(query, more, prompts, seed):
    def decided(text, written):
        return decide(Letters, [text], exact(Letters.similarity, Letters.embed(written)), Letters.threshold)

    alone = decided(query, prompts)
    assert alone.in_scope.item() == (alone.score.item() >= Letters.threshold) and alone.sentence == [query]
    assert alone.score.item() == pytest.approx(
        max(float(Letters.embed([query]) @ Letters.embed([p]).T) for p in prompts), abs=1e-6
    )
    among = decided("! ".join([*more, query]), prompts)
    assert among.score.item() >= alone.score.item() - 1e-6
    assert decided(query, [*prompts, *more]).score.item() >= alone.score.item() - 1e-6
    shuffled = random.Random(seed).sample(prompts, len(prompts))
    other = decided(query, shuffled)
    assert other.score.item() == pytest.approx(alone.score.item(), abs=1e-6)
    nearest = Letters.embed([shuffled[int(other.nearest)]])
    assert float(Letters.embed([query]) @ nearest.T) == pytest.approx(alone.score.item(), abs=1e-6)


@fuzz
@given(st.text(max_size=200))
def test_no_letter_of_a_text_is_lost_between_its_sentences(text):
    parts = sentences(text)
    assert parts
    whole, joined = "".join(text.split()), "".join("".join(parts).split())
    again = "".join(parts[-2].split()) if len(parts) > 1 else ""
    assert joined == whole or joined.replace(2 * again, again, 1) == whole, (
        "a question comes once more, before the start of its answer"
    )


# --- edited states


def solution(state):
    """The minimum-norm solution over what is stored, by LAPACK's SVD in float64."""
    weights, values = stored(state)
    return torch.linalg.lstsq(weights, values, rcond=1e-6, driver="gelsd").solution


def stored(state):
    """Weights and values of a fixed memory's facts, float64."""
    rows = state.store.alive_rows()
    values = state.memory.rest.unpacked(state.store.values(rows))
    return state.store.column("weight")[rows].double(), values.double()


steps = st.lists(
    st.tuples(st.sampled_from(["write", "near", "equal", "forget"]), st.integers(0, 9)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=max(80, FUZZ // 3), deadline=None, derandomize=True, database=None)
@given(
    steps=steps, rows=st.sampled_from([1, 2, 6]), addressing=st.sampled_from(["gaussian", "pseudoinverse"])
)
def test_any_edits_leave_the_solution_of_what_is_written(steps, rows, addressing):
    """Among them near-duplicate and equal keys, new answers, more facts than rows, and K = 1."""
    state, expected = blank_fixed(rows, addressing), {}
    for kind, number in steps:
        if kind == "forget":
            if f"p{number}" in expected:
                state = less(state, f"p{number}")
                del expected[f"p{number}"]
            continue
        key = numbers(1, 7, seed=0 if kind != "write" else number)
        key = key + 1e-7 * numbers(1, 7, seed=number) if kind == "near" else key
        fact = Fact(f"p{number}", f"{kind} {number}")
        state = put(state, [fact], numbers(1, 5, seed=50 + number), key, key)
        expected[f"p{number}"] = fact.target_new
    assert {fact.prompt: fact.target_new for fact in state.store.facts()} == expected
    memory = state.memory.memory
    assert memory.rows_written == len(expected)
    assert bool(torch.isfinite(memory.M).all())
    if not expected:
        assert not memory.M.any()
        return
    weights, values = stored(state)
    assert float(weights.abs().max()) <= 1e5, (
        "nearly equal keys are taken for one, not told apart by huge weights"
    )
    found, wanted = memory.M, solution(state)
    spread = torch.linalg.svdvals(weights) / weights.norm().clamp_min(1e-300)
    if bool(((spread < 1e-12) | (spread > 1e-3)).all()):
        torch.testing.assert_close(found, wanted, atol=1e-5 * max(1.0, float(wanted.abs().max())), rtol=0)
    else:  # so near to dependent that M is not determined to working precision; what is read back is
        worst = float((weights @ wanted - values).norm())
        assert float((weights @ found - values).norm()) <= worst + 1e-2 * max(1.0, float(values.norm()))


def test_equal_prompts_among_many_and_one_row_read_their_mean():
    """All keys equal, N much larger than K, K = 1: the least-squares answer to contradicting facts is their
    mean.
    """
    for rows in (1, 4):
        key, values = numbers(1, 7, seed=1).expand(50, 7), numbers(50, 5, seed=2)
        state = put(blank_fixed(rows), [Fact(f"p{i}", "t") for i in range(50)], values, key, key)
        read = state.read(None, key[:1])
        torch.testing.assert_close(read[0].double(), values.mean(dim=0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["frozen", "lora"])
def test_half_precision_decoders_read_float32_memories_into_finite_logits(tokenizer, dtype, mode):
    model = make_tiny(tokenizer, decoder_mode=mode)
    model.decoder.to(dtype)
    model.write([fact | {"prompt": f"{fact['prompt']} {number}"} for fact in FACTS for number in range(6)])
    with torch.no_grad():
        found = model(**encode(tokenizer, [f"{FACTS[0]['prompt']} 1", UNRELATED[0]]))
    assert found.logits.dtype == dtype and bool(torch.isfinite(found.logits).all())
    assert model.read([f"{FACTS[0]['prompt']} 1"]).latents.dtype == torch.float32


# --- what people write

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
GOOD = {
    "memory_rows": 64,
    "addressing": "pseudoinverse",
    "addressing_alpha": 0.01,
    "reference": "random",
    "key_encoding": "latent",
    "key_gain": 2,
    "sigma_w": 0.1,
    "readout_norm": True,
    "scope": "none",
    "scope_threshold": 0.5,
    "scope_index": "exact",
    "merge_adapters": False,
    "max_length": 20,
    "batch_size": 2,
    "model_parallel": True,
    "fp16": True,
    "device": 0,
}
known = st.sampled_from(
    [*GOOD, "alg_name", "model_name", "larimar_checkpoint", "value_gain", "observation_noise"]
)


@st.composite
def hparams_files(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.text(max_size=80) | st.binary(max_size=80))
    values = {"alg_name": "LARIMAR", "model_name": "m"} | {
        key: GOOD[key] for key in draw(st.lists(st.sampled_from([*GOOD])))
    }
    for key in draw(st.lists(known | st.text(max_size=8), max_size=3)):
        values[key] = draw(junk)
    return yaml.safe_dump(values, allow_unicode=True)


@fuzz
@given(content=hparams_files())
def test_any_hparams_file_is_understood_or_refused_by_name(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        found = LarimarHyperParams.from_hparams(str(path))
    except ValueError as error:
        assert "fuzzed.yaml" in str(error)
        return
    said = yaml.safe_load(content)
    for key, value in found.to_dict().items():
        if key in said:
            assert value == said[key] or math.isclose(value, float(said[key])), key
    assert found.max_length >= 1 and (found.memory_rows is None or found.memory_rows >= 1)
    assert not isinstance(found.sigma_w, (str, bool)) and found.addressing in (
        None,
        "gaussian",
        "pseudoinverse",
    )


texts = st.text(max_size=30) | st.sampled_from(
    ["The capital of Portugal is", " ", "\x00", "a" * 3000, "\u200b", "🙂" * 40, "{}"]
)
requests = st.lists(
    st.fixed_dictionaries(
        {}, optional={"prompt": texts | junk, "target_new": texts | junk, "subject": texts | junk}
    )
    | st.builds(lambda a, b: {"prompt": a, "target_new": b}, texts, texts)
    | junk,
    max_size=3,
)


@pytest.fixture(scope="module")
def edited(tokenizer):
    return make_tiny(tokenizer, memory_rows=16)


@fuzz
@pytest.mark.filterwarnings("ignore::larimar_editor.utils.text.TruncationWarning")
@given(given_requests=requests | junk, forgotten=st.lists(texts | st.integers(-3, 5), max_size=2))
def test_any_requests_are_written_whole_or_refused_whole(given_requests, forgotten, edited):
    state = edited.edited_state
    try:
        done = edited.write(given_requests)
    except (ValueError, TypeError) as error:
        assert str(error) and edited.edited_state is state
        assert not isinstance(error, TypeError) or not isinstance(given_requests, (list, dict))
    else:
        for fact in done:
            assert edited.edited_state.store.find(fact.prompt) == fact and fact.id
        assert torch.isfinite(edited.read([fact.prompt for fact in done]).latents).all()
    state = edited.edited_state
    try:
        edited.forget(*forgotten)
    except UnknownFact as error:
        assert "facts() lists what is" in str(error) or "named twice" in str(error)
        assert edited.edited_state is state
    if len(edited.facts()) > 30:
        edited.reset()
        assert edited.is_empty()


# --- what a disk hands back

_TABLES = {
    "about": ("name", "value"),
    "operations": ("number", "name", "done_at"),
    "facts": ("id", "key", "prompt", "target_new", "subject", "written_at", "crc"),
    "encodings": ("fact", "scope", "key"),
    "latents": ("fact", "value"),
    "spans": ("fact", "written_by", "forgotten_by"),
}
cells = (
    st.none() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=9) | st.binary(max_size=40)
)


@fuzz
@given(data=st.data())
def test_any_state_file_loads_or_is_refused_by_name(data, tmp_path_factory):
    """Cells that somebody has changed with SQL, in as far as SQLite lets him."""
    path = tmp_path_factory.getbasetemp() / "fuzzed.db"
    for rest in path.parent.glob("fuzzed.db*"):
        rest.unlink()
    save_state(written(), path, ORIGIN)
    table = data.draw(st.sampled_from([*_TABLES]))
    column, value = data.draw(st.sampled_from(_TABLES[table])), data.draw(cells)
    which = "fact" if table == "spans" else "rowid"
    with (
        closing(sqlite3.connect(path)) as connection,
        suppress(sqlite3.Error, UnicodeEncodeError),
        connection,
    ):
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {which} % 2", (value,))
    try:
        loaded = load_state(blank(), path, ORIGIN)
        facts = loaded.store.facts()
        read = loaded.read(loaded.store.alive_rows(), None)
    except (ValueError, OSError) as error:
        assert str(path) in str(error) or "are no latent" in str(error)
        return
    after = less(write(17).applied_to(loaded), *(fact.id for fact in facts))
    assert [fact.target_new for fact in after.store.facts()] == ["target 17"]
    assert torch.isfinite(read).all()
