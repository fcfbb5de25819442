"""Training of the scope detector: what is shown, that it learns, goes on where it stopped, and is shipped
whole.
"""

import json
import random
from dataclasses import replace

import pytest
import torch
from conftest import needs_gpu
from safetensors.torch import load_file
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.question_sources import questions, records
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.detectors import ExternalScopeDetector, sentence_encoder, stage_weights
from larimar_editor.scope.low_rank import shortened
from larimar_editor.training import saves
from larimar_editor.training.detector import loop, stages
from larimar_editor.training.detector.examples import MINED, NEGATIVES, POSITIVES, example, varied
from larimar_editor.training.detector.loop import Schedule, read_facts, train_stage, trained_weights
from larimar_editor.training.detector.mining import Query, mined
from larimar_editor.training.detector.run import DetectorRun
from larimar_editor.training.detector.stages import STAGES


@pytest.fixture(scope="module")
def facts():
    return list(records(questions().facts(), 40))


def test_an_example_shows_what_asks_the_same_and_what_does_not(facts):
    for number in range(80):
        rng = random.Random(number)
        fact = facts[number % len(facts)]
        made = example(fact, rng)
        assert made is not None and made.same and made.other
        assert made.written.removesuffix(f" = {fact['target_new']}").endswith(made.prompt)
        same = {fact["prompt"], *(text for sort in POSITIVES for text in fact[sort])}
        other = {text for sort in NEGATIVES for text in fact.get(sort, ())}
        assert made.prompt in same and not set(made.same) & (other - same)
        assert made.prompt not in made.same
    assert example(facts[0] | {sort: [] for sort in POSITIVES}, random.Random(0)) is None
    assert example(facts[0] | {sort: [] for sort in NEGATIVES}, random.Random(0)) is None


@pytest.mark.parametrize("fits", [True, False])
def test_an_answer_is_mostly_shown_where_it_fits_and_never_with_a_query(facts, fits):
    fact = facts[0] | {"target_new": "Quxville", "target_fits": fits}
    made = [one for seed in range(300) if (one := example(fact, random.Random(seed)))]
    shown = [one.written.endswith(" = Quxville") for one in made]
    assert (0.7 if fits else 0.03) < sum(shown) / len(shown) < (0.95 if fits else 0.3)
    for one in made:
        queries = [one.pair(query)[0 if one.reversed else 1] for query in (*one.same, *one.other)]
        assert not any(query.endswith("= Quxville") for query in queries)
        assert one.reversed is False or not one.pair(one.same[0])[1].endswith("= Quxville")


class Lookalike:
    """A second stage that takes any two texts for the same that share a word of five letters."""

    reads_target = False

    def probabilities(self, pairs, batch=64):
        words = lambda text: {word for word in text.lower().split() if len(word) > 4}
        return torch.tensor([0.9 if words(one) & words(other) else 0.01 for one, other in pairs])


def test_what_is_mined_is_of_another_subject_or_another_question(facts):
    detector = ExternalScopeDetector(sentence_encoder())
    detector.look = Lookalike()
    found = list(mined(facts, detector, pool=30, queries=120))
    assert [{**fact, MINED: 0} for fact in found] == [{**fact, MINED: 0} for fact in facts], (
        "all else is kept"
    )
    taken = [(fact, text) for fact in found for text in fact[MINED]]
    assert len(taken) > 10
    for fact, text in taken:
        assert text not in (fact["prompt"], *fact["rephrase_prompt"], *fact["alias_prompt"])
        assert float(detector.look.probabilities([(fact["prompt"], text)])) > 0.5, "what is easy is left out"
    assert found == list(mined(facts, detector, pool=30, queries=120)), "the same for the same seed"
    detector.look = None
    with pytest.raises(ValueError, match="second stage"):
        list(mined(facts, detector, pool=30, queries=1))


def test_only_what_surely_asks_something_else_is_a_negative():
    fact = {"subject": "Ada Quill", "relation": "job", "source": "kinds"}
    asks = lambda **other: Query("Ada Quill works as", fact | other)
    assert not asks().is_not(fact), "the fact itself"
    assert asks(relation="home").is_not(fact), "another question of the same source"
    assert not asks(relation="trade", source="sheets").is_not(fact), "that may ask the same in other words"
    assert asks(subject="Bo Tarn").is_not(fact)
    assert not asks(subject="Ada Maria Quill").is_not(fact), "that may be another name"
    assert not Query("Ada Quill lives in", fact | {"relation": "home"}, asks_it=False).is_not(fact)
    assert Query("who discovered radium").is_not(fact) and not Query("where is ada quill").is_not(fact)


def test_a_varied_text_is_still_that_text():
    rng, text = random.Random(0), "In which town was Odile Marchetti born?"
    made = {varied(text, rng) for _ in range(200)}
    assert text in made and len(made) > 5 and all("dile" in each or "arch" in each for each in made)


def begun(name, rank, start=None, device="cpu"):
    """A stage of the embedded sentence encoder."""
    also = {"look": EVEN} if name == "reader" else {}
    return STAGES[name](sentence_encoder(device=device), rank, start, **also)


class Even:
    """A second stage that is unsure of everything."""

    @staticmethod
    def log_odds(pairs):
        return torch.zeros(len(pairs))


EVEN = Even()


@pytest.mark.parametrize("name", list(STAGES))
def test_a_stage_learns_and_goes_on_as_if_it_had_not_been_stopped(name, facts, tmp_path):
    schedule = Schedule(steps=6, batch_size=4, learning_rate=2e-3, save_every=2)
    shown = [made for fact in facts[:12] if (made := example(fact, random.Random(1)))]
    torch.manual_seed(0)
    whole = begun(name, 4)
    before = loss_of(whole, shown)
    train_stage(whole, facts, schedule, tmp_path / "whole" / name)
    assert loss_of(whole, shown) < before
    torch.manual_seed(0)
    train_stage(begun(name, 4), facts, schedule, tmp_path / "stopped" / name, until=3)
    assert not trained_weights(tmp_path / "stopped")
    train_stage(begun(name, 4), facts, schedule, tmp_path / "stopped" / name)
    torch.manual_seed(0)
    train_stage(begun(name, 4), facts, schedule, tmp_path / "helped" / name, workers=2)
    one, *others = (trained_weights(tmp_path / each) for each in ("whole", "stopped", "helped"))
    for two in others:
        assert one.keys() == two.keys() and all(one[key].equal(two[key]) for key in one)
    with pytest.raises(ValueError, match="has gone 6 steps, further than 5: choose another --out"):
        train_stage(begun(name, 4), facts, replace(schedule, steps=5), tmp_path / "whole" / name)
    with pytest.warns(UserWarning, match="is not trained on"):
        train_stage(begun(name, 4), facts[:9], schedule, tmp_path / "whole" / name)
    kept = trained_weights(tmp_path / "whole")
    assert kept.keys() == one.keys()
    assert all(kept[key].equal(one[key]) for key in one), "what was trained stays"


def test_a_step_that_is_taken_again_is_in_the_metrics_once(facts, tmp_path):
    """A run that is killed has told of steps beyond its last save, which it takes again: a curve of the file
    would run back, and its last line may be torn.
    """
    schedule = Schedule(steps=4, batch_size=2, save_every=2)
    train_stage(begun("look", 2), facts, schedule, tmp_path, until=2)
    log = tmp_path / "metrics.jsonl"
    kept = log.read_text()
    with log.open("a") as file:
        file.write('{"step": 3, "loss": 99.0, "seconds": 1.0}\n{"step": 4, "lo')
    train_stage(begun("look", 2), facts, schedule, tmp_path)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4] and log.read_text().startswith(kept)
    assert all(line["loss"] < 99 for line in lines)


@needs_gpu
@pytest.mark.parametrize("name", list(STAGES))
def test_a_stage_learns_on_a_gpu(name, facts, tmp_path):
    shown = [made for fact in facts[:24] if (made := example(fact, random.Random(1)))]
    stage = begun(name, 4, device="cuda")
    before = loss_of(stage, shown)
    train_stage(stage, facts, Schedule(steps=6, batch_size=8, learning_rate=2e-3), tmp_path / name)
    assert loss_of(stage, shown) < before


def loss_of(stage, shown):
    stage.network.eval()  # training leaves dropout on
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)  # the reader draws what it reads
        return sum(float(stage.loss(shown)) for _ in range(3))


def test_the_reader_learns_from_what_the_second_stage_is_unsure_of(facts):
    shown = [made for fact in facts[:24] if (made := example(fact, random.Random(1)))]
    every = [(each.bare_pair(query), label) for each in shown for label, query in each.labelled()]
    unsure = {pair for pair, _ in every[::5]}

    class Mostly:
        def log_odds(self, pairs):
            return torch.tensor([0.0 if pair in unsure else 50.0 for pair in pairs])

    stage = STAGES["reader"](sentence_encoder(), 4, look=Mostly())
    read = []
    stage.logits = lambda pairs: read.extend(pairs) or torch.zeros(len(pairs))
    stage.loss(shown)
    assert len(read) == -(-len(every) // 4)
    likely = {each.pair(query) for each in shown for query in (*each.same, *each.other)
              if each.bare_pair(query) in unsure}  # fmt: skip
    share = sum(pair in likely for pair in read) / len(read)
    assert share > 0.5 > len(likely) / len(every)
    low = [name for name, value in stage.network.named_parameters() if value.requires_grad]
    assert not [name for name in low if "layer.0." in name or "layer.1." in name], "the lower third stays"


@pytest.mark.parametrize(("fast", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_step_is_in_bfloat16_only_where_that_is_fast(fast, dtype, facts, tmp_path, monkeypatch):
    for module in (stages, loop):
        monkeypatch.setattr(module, "bfloat16_is_fast", lambda device: fast)
    seen = set()

    class Watched(STAGES["look"]):
        def loss(self, examples):
            seen.add(torch.is_autocast_enabled("cpu"))
            return super().loss(examples)

    stage = Watched(sentence_encoder(), 2)
    frozen = [value for value in stage.encoder.parameters() if not value.requires_grad]
    assert frozen and {value.dtype for value in frozen} == {dtype}
    train_stage(stage, facts, Schedule(steps=1, batch_size=2), tmp_path / "look")
    assert seen == {fast}


def test_what_is_kept_is_a_moving_average_of_the_weights(facts, tmp_path, monkeypatch):
    stage, seen, step = STAGES["look"](sentence_encoder(), 4), [], torch.optim.AdamW.step
    names = {name: value for name, value in stage.network.named_parameters() if value.requires_grad}
    value = next(value for name, value in names.items() if "lora_A" in name)
    expected = value.detach().clone()

    def noted(optimiser, *rest):
        step(optimiser, *rest)
        seen.append(value.detach().clone())

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    train_stage(stage, facts, Schedule(steps=3, batch_size=4, average=0.15), tmp_path)
    for number, after in enumerate(seen):
        share = min(0.15, (number + 1) / (number + 10))
        expected = share * expected + (1 - share) * after
    assert len(seen) == 3 and torch.allclose(value, expected, atol=1e-6)
    assert not torch.allclose(value, seen[-1], atol=1e-6)


def test_a_stage_begins_with_what_was_trained_before(facts, tmp_path):
    schedule = Schedule(steps=2, batch_size=4)
    for name in STAGES:
        train_stage(begun(name, 4), facts, schedule, tmp_path / name)
    weights = trained_weights(tmp_path)
    for name in STAGES:
        own = stage_weights(weights, name)
        again = begun(name, 4, own).weights()
        assert again.keys() == own.keys()
        assert all(again[key].bfloat16().equal(own[key].bfloat16()) for key in own)
        with pytest.raises(ValueError, match="of another encoder, or of a higher rank than 3"):
            begun(name, 3, own)
        wider = begun(name, 6, own)
        shown = [made for fact in facts[:3] if (made := example(fact, random.Random(1)))]
        assert loss_of(wider, shown) == pytest.approx(loss_of(begun(name, 4, own), shown), rel=1e-3)
        other = {key: 2 * value if key.endswith(".norm") else value for key, value in own.items()}
        with pytest.raises(ValueError, match="of another encoder"):
            begun(name, 4, other)


def test_a_reversed_example_shows_the_query_as_written(facts):
    shown = [made for seed in range(60) if (made := example(facts[seed % 40], random.Random(seed)))]
    assert 5 < sum(made.reversed for made in shown) < 30
    for made in shown:
        assert made.pair("a query") == (
            ("a query", made.prompt) if made.reversed else (made.written, "a query")
        )


def test_what_was_trained_is_put_into_a_checkpoint_and_read_back(facts, tmp_path, tiny):
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(fact) for fact in facts) + "\n")
    options = ["--steps", "1", "--batch-size", "4", "--rank", "2", "--out", str(tmp_path / "run")]
    tiny.save_pretrained(tmp_path / "checkpoint")
    done = CliRunner().invoke(app, ["train-detector", str(path), *options, "--into", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    weights = trained_weights(tmp_path / "run")
    assert {name.split(".")[0] for name in weights} == {"candidates", "look"}
    stored = load_file(tmp_path / "new" / "model.safetensors")
    assert {f"scope.{name}" for name in weights} <= stored.keys() and "scope.metric" not in stored
    assert {stored[f"scope.{name}"].dtype for name in weights if name[-2:] in (".A", ".B")} == {torch.int8}
    detector = ExternalScopeDetector(sentence_encoder(), shortened(weights))
    assert detector.look is not None
    assert detector.look.probabilities([("A is", "B is")]).shape == (1,)
    assert LarimarForCausalLM.from_pretrained(tmp_path / "new").detectors.external.look is not None
    options[-1] = str(tmp_path / "third")
    third = ["--stage", "reader", "--checkpoint", str(tmp_path / "new"), "--encoder", "all-MiniLM-L6-v2"]
    done = CliRunner().invoke(
        app, ["train-detector", str(path), *options, *third, "--into", str(tmp_path / "newer")]
    )
    assert done.exit_code == 0, done.output
    newer = LarimarForCausalLM.from_pretrained(tmp_path / "newer").detectors.external
    assert newer.reader.probabilities([("A is", "B is")], torch.tensor([0.5])).shape == (1,)
    assert newer.look.probabilities([("A is", "B is")]) == pytest.approx(
        detector.look.probabilities([("A is", "B is")])
    ), "the other stages stay"


def test_one_stage_is_trained_on_and_half_of_it_is_kept(facts, tmp_path):
    path, run, runner = tmp_path / "facts.jsonl", str(tmp_path / "run"), CliRunner()
    path.write_text("\n".join(json.dumps(fact) for fact in facts) + "\n")
    command = ["train-detector", str(path), "--batch-size", "4", "--steps", "1", "--out", run]
    model = LarimarForCausalLM.from_pretrained("smollm2-135m")
    own, model.detectors.weights = dict(model.detectors.weights), {}
    model.save_pretrained(tmp_path / "none")
    refused = runner.invoke(app, [*command, "--checkpoint", str(tmp_path / "none"), "--go-on"])
    assert isinstance(refused.exception, ValueError) and "has no trained candidates" in str(refused.exception)
    refused = runner.invoke(app, [*command, "--keep", "0.5"])
    said = " ".join(refused.output.replace("│", " ").split())
    assert refused.exit_code == 2 and "--keep needs --go-on" in said
    options = ["--stage", "look", "--go-on", "--keep", "0.5", "--into", str(tmp_path / "after")]
    done = runner.invoke(app, [*command, *options])
    assert done.exit_code == 0, done.output
    after, trained = load_file(tmp_path / "after" / "model.safetensors"), trained_weights(tmp_path / "run")
    kept = shortened(own)
    assert all(after[f"scope.{key}"].equal(kept[key]) for key in kept if not key.startswith("look."))
    head = "look.head.weight"
    assert not trained[head].equal(own[head])
    mean = (own[head].float() + trained[head].float()) / 2
    assert after[f"scope.{head}"].float().allclose(mean, atol=1e-2) and "scope.look.reads_target" in after
    done = runner.invoke(app, [*command, *options, "--no-show-answers"])
    assert done.exit_code == 0, done.output
    bare = load_file(tmp_path / "after" / "model.safetensors")
    assert bare.keys() == after.keys() - {"scope.look.reads_target"}, "the run is done: only the mark goes"


def test_a_detectors_run_goes_on_with_what_it_was_begun_with(facts, tmp_path):
    """Another start was replaced by what was saved, and another rank was a traceback."""
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(fact) for fact in facts) + "\n")
    command = ["train-detector", str(path), "--batch-size", "4", "--out", str(tmp_path / "run")]
    given = [*command, "--stage", "look", "--rank", "2", "--until", "1"]
    assert CliRunner().invoke(app, given).exit_code == 0
    noted = (tmp_path / "run" / "look" / "settings.json").read_bytes()
    for other, name in (("--rank", "3"), "rank"), (("--seed", "7"), "seed"):
        refused = CliRunner().invoke(app, [*given, *other])
        assert isinstance(refused.exception, ValueError) and f"settings ({name})" in str(refused.exception)
    both = CliRunner().invoke(app, [*command, "--rank", "3", "--until", "1"])
    assert "settings (rank)" in str(both.exception) and not (tmp_path / "run" / "candidates").exists()
    refused = CliRunner().invoke(app, [*command, "--stage", "look", "--go-on", "--until", "1"])
    assert "settings (rank, start)" in str(refused.exception)
    assert (tmp_path / "run" / "look" / "settings.json").read_bytes() == noted
    more = CliRunner().invoke(app, [*given[:-1], "2", "--steps", "2", "--learning-rate", "1e-3"])
    assert more.exit_code == 0, "data and schedule may be others"


def test_the_order_of_the_facts_is_drawn_once_a_pass(facts):
    schedule = Schedule(batch_size=10)
    loop._order.cache_clear()
    shown = [loop._batch(facts, schedule, step) for step in range(8)]
    assert loop._order.cache_info().misses == 2 and shown[1] == loop._batch(facts, schedule, 1)


def test_a_checkpoint_that_would_lack_a_stage_is_refused_before_any_is_trained(tmp_path):
    """It was said after hours of training."""
    run = tmp_path / "run"
    given = ["train-detector", "not-read-yet.jsonl", "--steps", "9", "--out", str(run)]
    given += ["--into", str(tmp_path / "new")]
    for options in (["--stage", "look"], ["--until", "8"]):
        done = CliRunner().invoke(app, [*given, *options])
        assert isinstance(done.exception, ValueError) and "--into needs both stages" in str(done.exception)
        assert not run.exists()


def test_what_a_run_will_have_is_known_before_it(tmp_path):
    made = lambda *stages, own=(): DetectorRun(
        tmp_path, None, "encoder", "cpu", stages, {}, None, {f"{name}.x": torch.zeros(1) for name in own}
    )
    schedule = Schedule(steps=4)
    made("candidates", "look").refuse_in_part(schedule)
    made("look", own=("candidates", "look")).refuse_in_part(schedule)
    made("reader", own=("candidates", "look", "reader")).refuse_in_part(schedule, until=9)
    for run, until in ((made("look"), None), (made("candidates", "look"), 3), (made("reader"), None)):
        with pytest.raises(ValueError, match="--into needs both stages"):
            run.refuse_in_part(schedule, until)
    saved = saves.folder_of(tmp_path / "candidates", 4)
    saved.mkdir(parents=True)
    saves.note_step(saved, 4)
    (tmp_path / "candidates" / loop.WEIGHTS).touch()
    made("look").refuse_in_part(schedule)
    with pytest.raises(ValueError, match="finished: candidates"):
        made("candidates", "look").refuse_in_part(schedule, until=3)  # the first is kept, the other not ended
    with pytest.raises(ValueError, match="finished: none"):
        made("candidates").refuse_in_part(Schedule(steps=6), until=5)  # what is there is trained on, half-way


def test_a_file_that_is_none_is_refused_by_line(tmp_path):
    (tmp_path / "bad.jsonl").write_text(json.dumps({"prompt": "A is"}) + "\n")
    with pytest.raises(ValueError, match="line 1 is no fact"):
        read_facts(tmp_path / "bad.jsonl")
