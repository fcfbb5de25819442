"""Whatever fails, wherever: a model is as it was before, or as it should be after."""

import copy
import inspect
import random
import sys
import threading
from pathlib import Path

import pytest
import torch
from conftest import EVERYTHING, FACTS, UNRELATED, encode, make_tiny, sentence_encoder, tiny_llama

import larimar_editor
from larimar_editor import LarimarForCausalLM, LarimarHyperParams, apply_larimar_to_model
from larimar_editor.model import episodic
from larimar_editor.model.restoring import unchanged_on_failure

PACKAGE = str(Path(larimar_editor.__file__).parent)
PROMPTS = [fact["prompt"] for fact in FACTS]


class Injected(Exception):
    """The failure that a test puts in."""


class FailsAt:
    """While it lasts, entering the n-th function of our own files, or of PEFT's, raises; without n it only
    counts.
    """

    def __init__(self, number: int | None = None):
        self.number, self.count = number, 0

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error):
        sys.setprofile(self._before)

    def _called(self, frame, event, argument):
        name = frame.f_code.co_filename
        own = name.startswith(PACKAGE) or "/peft/tuners/" in name
        # Generators are entered once more when they are thrown away, where nothing can be raised.
        if (
            event == "call"
            and own
            and "restoring" not in name
            and not frame.f_code.co_flags & inspect.CO_GENERATOR
        ):
            if _putting_back(frame):
                return
            if self.count == self.number:
                sys.setprofile(self._before)
                raise Injected(f"{name}: {frame.f_code.co_name}")
            self.count += 1


def _putting_back(frame) -> bool:
    """Whether the adapters are being switched off: what puts things back cannot be put back itself."""
    while frame is not None:
        if frame.f_code.co_name == "use" and frame.f_locals.get("on") is False:
            return True
        frame = frame.f_back
    return False


def structure(model):
    """Everything that must be as it was: modules by name and identity, weights, flags, attributes."""
    return (
        {name: id(module) for name, module in model.named_modules()},
        {
            name: (id(value), value.requires_grad, value.data_ptr())
            for name, value in model.named_parameters()
        },
        {name: frozenset(vars(module)) for name, module in model.named_modules()},
        {name: value.clone() for name, value in model.state_dict().items()},
    )


def assert_same_structure(a, b):
    assert a[0] == b[0] and a[1] == b[1] and a[2] == b[2] and a[3].keys() == b[3].keys()
    assert all(torch.equal(value, b[3][name]) for name, value in a[3].items())


@torch.no_grad()
def logits(model, tokenizer, texts=(*PROMPTS, *UNRELATED)):
    return model(**encode(tokenizer, list(texts))).logits


@pytest.fixture
def one_thread_each():
    """Of torch's own, or those of several Python threads wait for each other."""
    before, interval = torch.get_num_threads(), sys.getswitchinterval()
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-4)  # so that threads meet more often
    yield
    torch.set_num_threads(before)
    sys.setswitchinterval(interval)


@pytest.fixture(scope="module")
def checkpoint(tokenizer, tmp_path_factory):
    """A checkpoint with adapters that do something, so that a read switches them."""
    model = make_tiny(tokenizer, decoder_mode="lora")
    for layer in model.adapters.layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.1)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder, dtype=torch.float32)
    return folder


@pytest.fixture
def hparams(checkpoint, monkeypatch):
    monkeypatch.setattr(
        "larimar_editor.model.scoping.SentenceTransformer", lambda *args, **kwargs: sentence_encoder()
    )
    return LarimarHyperParams(alg_name="LARIMAR", model_name="tiny", larimar_checkpoint=str(checkpoint))


ROUNDS = 20 if EVERYTHING else 8


def points(count: int, wanted: int, seed: int = 0) -> list[int]:
    """Where to fail; at most 24 places and the first and last, unless `make soak` asks for all that are
    wanted.
    """
    wanted = wanted if EVERYTHING else min(wanted, 24)
    return sorted({0, 1, count - 1, *random.Random(seed).sample(range(count), min(count, wanted))})


@pytest.mark.parametrize("options", [{}, {"copy": True}, {"return_orig_weights": True}])
def test_a_first_edit_that_fails_anywhere_leaves_the_decoder_as_it_was(tokenizer, hparams, options):
    decoder = tiny_llama(len(tokenizer))
    before, plain = structure(decoder), logits(decoder, tokenizer)
    edit_another = lambda: apply_larimar_to_model(
        tiny_llama(len(tokenizer)), tokenizer, FACTS, hparams, **options
    )
    twin, _ = edit_another()
    expected = logits(twin, tokenizer)
    with FailsAt() as steps:  # now that what is read once in a process was read
        edit_another()
    failed = set()
    for number in points(steps.count, 30 if options.get("copy") else 60):
        with pytest.raises(Injected) as error, FailsAt(number):
            apply_larimar_to_model(decoder, tokenizer, FACTS, hparams, **options)
        failed.add(str(error.value))
        assert_same_structure(structure(decoder), before)
        assert torch.equal(logits(decoder, tokenizer), plain)
    assert len(failed) > 15, "many different steps"
    edited, _ = apply_larimar_to_model(decoder, tokenizer, FACTS, hparams, **options)
    assert torch.equal(logits(edited, tokenizer), expected), (
        "and the edit that does not fail is the one it should be"
    )


@pytest.mark.parametrize("options", [{}, {"copy": True}, {"return_orig_weights": True}])
def test_a_later_edit_that_fails_anywhere_leaves_the_model_as_it_was(tokenizer, hparams, tmp_path, options):
    model, _ = apply_larimar_to_model(tiny_llama(len(tokenizer)), tokenizer, FACTS[:2], hparams)
    model.open_state(tmp_path / "edits.db")
    change = [FACTS[0] | {"target_new": "Dutch"}, FACTS[2]]
    twin = copy.deepcopy(model)
    with FailsAt() as steps:
        apply_larimar_to_model(twin, tokenizer, change, hparams, **options)
    state, before = model.edited_state, logits(model, tokenizer)
    for number in points(steps.count, 15 if options.get("copy") else 60):
        with pytest.raises(Injected), FailsAt(number):
            apply_larimar_to_model(model, tokenizer, change, hparams, **options)
        assert model.edited_state is state and torch.equal(logits(model, tokenizer), before)
    done, _ = apply_larimar_to_model(model, tokenizer, change, hparams, **options)
    expected, _ = apply_larimar_to_model(twin, tokenizer, change, hparams)
    assert torch.equal(logits(done, tokenizer), logits(expected, tokenizer))
    facts = model.facts()
    model.close_state()
    model.load_state(tmp_path / "edits.db")
    assert model.facts() == facts


def test_a_read_that_fails_anywhere_leaves_the_decoder_without_adapters(tokenizer, hparams):
    decoder = tiny_llama(len(tokenizer))
    plain = logits(decoder, tokenizer)
    model, _ = apply_larimar_to_model(decoder, tokenizer, FACTS, hparams)
    expected = logits(model, tokenizer)
    assert not torch.allclose(expected, plain)

    def forget_what_was_made():
        model._last_reading, model.adapters._stamps = None, ([], [])

    forget_what_was_made()
    with FailsAt() as steps:
        logits(model, tokenizer)
    for number in points(steps.count, 80):
        forget_what_was_made()
        with pytest.raises(Injected), FailsAt(number):
            logits(model, tokenizer)
        assert torch.equal(logits(decoder, tokenizer), plain)
        assert torch.equal(logits(model, tokenizer), expected)


def test_a_full_decoder_that_fails_to_load_gives_its_weights_back(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    before = structure(decoder)
    with pytest.raises(Injected), unchanged_on_failure(decoder):
        for parameter in decoder.parameters():
            parameter.data = torch.zeros_like(parameter)
            parameter.requires_grad_(False)
        decoder.model.layers.append(torch.nn.Linear(2, 2))
        raise Injected
    assert_same_structure(structure(decoder), before)


@pytest.mark.parametrize("kept", ["in memory", "in a file"])
def test_a_reader_sees_whole_edits_only(tokenizer, one_thread_each, kept, tmp_path):
    """Two facts are always written, and forgotten, together: a reader must never see one of them alone."""
    model = make_tiny(tokenizer, decoder_mode="lora", memory_rows=128)
    for layer in model.adapters.layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.1)
    pair, others, answers = FACTS[:2], FACTS[2:], {}
    batch = encode(tokenizer, [*PROMPTS[:2], UNRELATED[0]])

    @torch.no_grad()
    def read():
        return model(**batch).logits

    for name, facts in (
        ("none", []),
        ("first", pair),
        ("second", [fact | {"target_new": "Dutch"} for fact in pair]),
    ):
        model.reset()
        model.write(facts)
        answers[name] = read()
    model.reset()
    if kept == "in a file":
        model.open_state(tmp_path / "facts.db")
    plain = answers["none"]
    failures, seen, stop = [], set(), threading.Event()

    def reader():
        try:
            while not stop.is_set():
                found = read()
                names = [name for name, answer in answers.items() if torch.allclose(answer, found, atol=1e-4)]
                seen.update(names)
                if len(names) != 1 or not torch.equal(found[2], plain[2]):
                    failures.append(names)
        except Exception as error:
            failures.append(error)

    def editor(targets):
        try:
            for number in range(400):
                if number >= ROUNDS and len(seen) == 2:
                    break
                model.write(
                    [
                        fact | {"target_new": targets.get(fact["target_new"], fact["target_new"])}
                        for fact in pair
                    ]
                )
                model.forget(*PROMPTS[:2])
        except Exception as error:
            failures.append(error)

    def bystander():
        try:
            for number in range(ROUNDS):
                model.write([others[0] | {"prompt": f"{others[0]['prompt']} {number}"}])
                model.facts(), model.scope_of(PROMPTS[:1]), copy.deepcopy(model).write(others)
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=reader) for _ in range(2)]
    editors = [
        threading.Thread(target=editor, args=({"English": "Dutch", "Oslo": "Dutch"},)),
        threading.Thread(target=bystander),
    ]
    for thread in readers + editors:
        thread.start()
    for thread in editors:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not failures and seen == {"none", "second"}
    assert len(model.facts()) == ROUNDS, "no edit is lost"


def test_a_generation_is_of_one_state_whatever_is_edited_meanwhile(tiny, tokenizer):
    """With and without a cache; the edit comes between two of its tokens."""
    tiny.write(FACTS)
    batch = encode(tokenizer, PROMPTS[:2])
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 2}
    for use_cache in (True, False):
        expected = tiny.generate(**batch, **options, use_cache=use_cache)
        edits = []

        class Meddler:
            def __call__(self, input_ids, scores, edits=edits, **kwargs):
                if not edits:
                    edits.append(tiny.reset())
                return torch.zeros(len(input_ids), dtype=torch.bool)

        assert torch.equal(
            tiny.generate(**batch, **options, use_cache=use_cache, stopping_criteria=[Meddler()]), expected
        )
        assert edits and not tiny.facts()
        tiny.undo()


@pytest.mark.parametrize("lines", [[False], [True]])
def test_the_tokenizer_is_called_behind_the_lock(tokenizer, monkeypatch, lines):
    """It is not made for threads: what a write and a read ask of it, they ask one at a time."""
    model, free = make_tiny(tokenizer), []

    def look():
        free.append(model._lock.acquire(blocking=False))
        if free[-1]:
            model._lock.release()

    def watched(call):
        def watch(*args):
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return call(*args)

        return watch

    for name in ("kept_answer", "answer_ids", "ids_at_line_start"):
        monkeypatch.setattr(episodic, name, watched(getattr(episodic, name)))
    monkeypatch.setattr(episodic.LineStart, "of", watched(episodic.LineStart.of))
    model.write(FACTS[:1])
    written = len(free)
    assert model.read(PROMPTS[:1], lines).answer_ids
    assert written and len(free) > written and not any(free)


def test_the_lock_of_a_copy_is_its_own(tokenizer):
    model = make_tiny(tokenizer)
    twin = copy.deepcopy(model)
    done = []
    with model._lock:
        thread = threading.Thread(target=lambda: done.append(twin.write(FACTS)))
        thread.start()
        thread.join(60)
    assert done and isinstance(twin, LarimarForCausalLM) and not model.facts()


def test_a_copy_that_is_taken_while_another_thread_reads_waits_for_it(tokenizer):
    """Else the adapters, which are in the decoder meanwhile, would be in the copy's for good."""
    model = make_tiny(tokenizer, decoder_mode="lora")
    for layer in model.adapters.layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.1)
    model.write(FACTS)
    plain = logits(model.decoder, tokenizer, UNRELATED)
    reads, copied, twins = threading.Event(), threading.Event(), []

    @torch.no_grad()
    def read():
        with model._lock, model.adapted():
            reads.set()
            copied.wait(1)  # longer than a copy takes that does not wait

    def take():
        reads.wait(60)
        twins.append(copy.deepcopy(model))
        copied.set()

    threads = [threading.Thread(target=each) for each in (read, take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (twin,) = twins
    assert torch.equal(logits(twin.decoder, tokenizer, UNRELATED), plain)
    assert torch.equal(logits(twin, tokenizer), logits(model, tokenizer))
    twin.reset()
    assert torch.equal(logits(twin, tokenizer), logits(model.decoder, tokenizer)) and model.facts()


def test_a_copy_of_a_copy_and_of_what_holds_a_model_is_whole(tokenizer):
    class Own(LarimarForCausalLM):
        pass

    model = make_tiny(tokenizer, decoder_mode="lora")
    model.write(FACTS)
    model.__class__ = Own
    model.decoder.held_by = (model,)  # a tuple is no module: the decoder alone is copied with its Larimar
    twin = copy.deepcopy(copy.deepcopy(model))
    assert type(twin) is Own and twin.decoder.held_by == (twin,)
    assert (
        twin.states.decoder is twin.decoder
        and twin.adapters._places[0][0] is not model.adapters._places[0][0]
    )
    (held,) = copy.deepcopy(model.decoder).held_by
    assert held is not model and torch.equal(logits(held, tokenizer), logits(model, tokenizer))
