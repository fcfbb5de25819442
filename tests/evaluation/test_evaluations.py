"""What single tables count, against what the models say."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import yaml
from tiny_methods import TINY_METHODS

from larimar_editor.data.edits import load_edits
from larimar_editor.data.question_sources import facts_of_subjects, questions
from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.baselines import NoBaselines, single_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.lifetimes import Lifetime, texts_of
from larimar_editor.evaluation.harness.records import LeftOut, read_records
from larimar_editor.evaluation.harness.scores import TargetScore
from larimar_editor.evaluation.harness.trials import Stage, Trial, records_of, stage_of
from larimar_editor.evaluation.tables import (
    find,
    forgetting,
    holdout,
    leakage,
    lengths,
    prompted,
    robustness,
    subjects,
)
from larimar_editor.evaluation.tables.counterfact import with_rephrasings
from larimar_editor.evaluation.tables.longcontext import (
    FACTS,
    read_facts,
    read_recursively,
)
from larimar_editor.evaluation.tables.rephrase import facts_in_wordings
from larimar_editor.evaluation.tables.stream import Player, steps_of, written_after

pytestmark = pytest.mark.usefixtures("one_sentence_encoder")


def test_the_base_models_row_is_the_base_model(hparams, tmp_path):
    pytest.importorskip("easyeditor", exc_type=ImportError)
    summary = find("counterfact").run(
        Context(hparams, out=tmp_path / "all", limit=6, baselines=EasyEditBaselines()),
        tmp_path,
        progress=False,
    )
    records = read_records(tmp_path / "records.jsonl")
    for record in records:
        if record["condition"] == "base model":
            for asked in (*record["rewrite"], *record["rephrase"]):
                assert not asked["in_scope"] and asked["success"] == asked["base_success"]
            assert all(each["same"] == 1 for each in record["locality"])
    base, larimar, *more = summary["rows"]
    assert base["same"]["value"] == 100 and larimar["edit_M"]["value"] > base["edit_M"]["value"]
    assert [row["name"] for row in more[:2]] == ["Larimar + 1 rephrasing", "Larimar + 2 rephrasings"]
    (through_easyedit,) = more[2:]
    assert through_easyedit["name"] == "LARIMAR"
    for column in find("counterfact").columns:
        value = through_easyedit[column.key]["value"]
        assert value == pytest.approx(larimar[column.key]["value"], abs=1e-3), column.key
    own = [record["rewrite"][0]["success"] for record in records if record["condition"] == "Larimar"]
    assert larimar["edit_S"]["value"] == pytest.approx(100 * sum(own) / 6)


def test_answers_by_length_have_the_same_cases_first_however_many_are_wanted(tokenizer):
    """Records are kept by a case's place: with another --limit they would be of other facts."""
    context = SimpleNamespace(larimar=lambda: SimpleNamespace(tokenizer=tokenizer), seed=0)
    few, more = (lengths._edits(context, count) for count in (3, lengths.EACH))
    assert few == {most: edits[:3] for most, edits in more.items()} and len(more[lengths.MOST[-1]]) > 3


def test_further_wordings_leave_out_the_one_that_is_asked():
    edit = load_edits(limit=1)[0]
    written = [request["prompt"] for request in with_rephrasings(2)(edit)]
    assert (
        len(written) == 3
        and edit.rephrase_prompts[0] not in written
        and written[1] == edit.rephrase_prompts[1]
    )


def test_a_stream_forgets_only_what_it_holds_and_says_what_is_held(tiny):
    edits = load_edits(limit=8)
    steps = steps_of(edits, 60, seed=1)
    held = set()
    for number, (what, edit) in enumerate(steps, 1):
        assert (edit.prompt in held) == (what == "forget")
        held ^= {edit.prompt}
        now, gone = written_after(steps[:number])
        assert {each.prompt for each in now} == held and not {each.prompt for each in gone} & held
    assert steps == steps_of(edits, 60, seed=1) and sum(what == "forget" for what, _ in steps) >= 15
    before, player = tiny.edited_state, Player(steps)
    player.ask(tiny, 20, edits[:1])
    player.ask(tiny, 33, edits[:1])
    assert tiny.edited_state is before
    assert {fact.prompt for fact in player.state.store.facts()} == {
        edit.prompt for edit in written_after(steps[:33])[0]
    }


def test_the_prompt_that_asks_to_forget_is_the_papers():
    edits = [
        replace(edit, prompt=f"Q{i} is", target_new=f"A{i}") for i, edit in enumerate(load_edits(limit=4))
    ]
    assert prompted.prompt_of(edits, frozenset({1, 2}), [2, 0], 3) == (
        "Facts:\nQ0 is A0\n[UNKNOWN] Q1 is A1\n[UNKNOWN] Q2 is A2\nQ3 is A3\n\n"
        "Input: Q2 is\nOutput: UNKNOWN\nInput: Q0 is\nOutput: A0\nInput: Q3 is\nOutput:"
    )


def test_forgetting_by_prompt_is_asked_with_and_without_marks(tiny, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        prompted, "answers", lambda _, prompts, batch: asked.append(prompts) or ["x"] * len(prompts)
    )
    monkeypatch.setattr(Context, "larimar", lambda self, **settings: tiny)
    context = Context(None, out=tmp_path)
    (condition,) = prompted.prompted_conditions(context, load_edits(limit=8), trials=1)
    (record,) = condition.score(list(condition.cases.values()))
    assert record == {"before": 0, "forgotten": 0, "retained_before": 0, "retained": 0}, "nobody said x"
    assert [{"[UNKNOWN]" in each for each in prompts} for prompts in asked] == [
        {False},
        {True},
        {False},
        {True},
    ]
    assert not prompted.prompted_conditions(context, load_edits(limit=2), trials=1), "too few"


class Remembering:
    """Says of a prompt what is written of it, to the letter."""

    def __init__(self):
        self.edited_state = {}

    def write(self, requests):
        self.edited_state = self.edited_state | {each["prompt"]: each["target_new"] for each in requests}

    def forget(self, prompt):
        self.edited_state = {each: said for each, said in self.edited_state.items() if each != prompt}


class ForgettingAll(Remembering):
    """Forgets everything with one fact."""

    def forget(self, prompt):
        self.edited_state = {}


@pytest.mark.parametrize(("model", "retained"), [(Remembering(), 1), (ForgettingAll(), 0)])
def test_a_fact_is_asked_before_after_and_once_unknown_is_written_and_the_others_with_it(
    model, retained, monkeypatch
):
    said = lambda model, prompts: [model.edited_state.get(prompt, "nothing") for prompt in prompts]
    monkeypatch.setattr(forgetting, "answers", said)
    edits = load_edits(limit=4)
    record = forgetting._trial(model, {edit.prompt: edit.target_new for edit in edits}, edits, 1)
    assert record == {
        "before": 1,
        "forgotten": 0,
        "unknown": 0,
        "retained_before": 1,
        "retained": retained,
    }
    assert model.edited_state == {}, "as before"


def test_what_shares_a_memory_or_a_question_is_one_cluster():
    alone, half, whole, _ = forgetting._conditions(Context(None, limit=8))
    counted = [{each.cluster(case) for case in each.cases.values()} for each in (alone, half, whole)]
    assert list(map(len, counted)) == [8, 2, 1], "facts in one memory"
    edits = facts_of_subjects(questions(), 3, 5)
    of_subjects = subjects._condition(None, "Larimar", 5, edits, {})
    asked = {}
    for edit in edits:
        asked.setdefault(of_subjects.cluster(edit), []).append(edit.subject)
    assert [len(names) for names in asked.values()] == [5, 5, 5]
    assert all(len({*names}) == 1 for names in asked.values())


def test_an_answer_leaks_where_any_attempt_says_it():
    edit = replace(load_edits(limit=1)[0], ground_truth="French")
    kept = leakage._record(edit, "It is French.", ["English", "It is unknown"])
    leaked = leakage._record(edit, "English", ["unknown", "French, of course"])
    assert (kept, leaked) == ({"known": 1, "leaked": 0}, {"known": 0, "leaked": 1})
    every, of_known = find("leakage").columns
    assert every.of([kept, leaked]).value == 50
    assert (of_known.of([kept, leaked]).value, of_known.of([kept, leaked]).count) == (0, 1)


def test_writes_that_accumulate_are_asked_in_a_wording_that_is_none_of_them(monkeypatch):
    """By the query's own key: by that of the fact which the detector chose both addressings are alike."""
    settings, model = [], Remembering()
    facts = {fact["rephrase_prompt"][-1]: fact for fact in facts_in_wordings(3, 0)}

    def said(model, prompts):
        assert not {*prompts} & {*model.edited_state}
        written = {*model.edited_state}
        wordings = lambda prompt: {facts[prompt]["prompt"], *facts[prompt]["rephrase_prompt"]}
        return [facts[each]["target_new"] if wordings(each) & written else "nothing" for each in prompts]

    monkeypatch.setattr(holdout, "answers", said)
    context = SimpleNamespace(
        limit=3,
        seed=0,
        baseline_cases=0,
        baselines=NoBaselines(),
        larimar=lambda **given: settings.append(given) or model,
    )
    conditions = holdout._conditions(context)
    assert len({condition.name for condition in conditions}) == len(conditions)
    for condition in conditions:
        scores = [record["f1"] for record in condition.score(list(condition.cases.values()))]
        if condition.settings["writes"] in (0, 9):
            assert scores == 3 * [float(condition.settings["writes"] == 9)]
    assert {given["addressing"] for given in settings} == {"gaussian", "pseudoinverse"}
    assert {given["addressed_by"] for given in settings} == {"query"} and not model.edited_state


def test_an_edit_under_noise_succeeds_where_the_new_answer_is_the_likelier(monkeypatch):
    of = {"likely": TargetScore(-1.0, 0.5, ()), "unlikely": TargetScore(-2.0, 0.25, ())}
    monkeypatch.setattr(robustness, "written_alone", lambda model, requests: nullcontext())
    monkeypatch.setattr(robustness, "target_scores", lambda model, pairs: [of[target] for _, target in pairs])
    monkeypatch.setattr(robustness, "answers", lambda model, prompts: ["said"])
    monkeypatch.setattr(robustness, "_nats", lambda model, prompt, generated: 2.0)
    settings = []
    context = SimpleNamespace(seed=0, larimar=lambda **given: settings.append(given))
    edit = load_edits(limit=1)[0]
    edits = [
        replace(edit, target_new=new, ground_truth=old)
        for new, old in (("likely", "unlikely"), ("unlikely", "likely"))
    ]
    assert robustness._score(context, 0.3, edits) == [
        {"success": 1, "accuracy": 0.5, "nats": 2.0},
        {"success": 0, "accuracy": 0.25, "nats": 2.0},
    ]
    assert settings == [{"sigma_w": 0.3, "memory": "fixed", "memory_rows": 16}]


def test_sizes_beyond_the_limit_are_left_out_and_said():
    names = {condition.name: condition for condition in find("rephrase").conditions(Context(None, limit=50))}
    with pytest.raises(LeftOut, match="100 facts, more than --limit"):
        names["(100, 1)"].score([None])
    assert "(40, 2), gaussian" in names and "(100, 1), gaussian" not in names


def test_facts_of_a_text_file(tmp_path):
    (tmp_path / "facts.txt").write_text("The capital of Oz is\tEmerald City\n\nIts ruler is\tOzma\n")
    assert read_facts(tmp_path / "facts.txt")[1] == {"prompt": "Its ruler is", "target_new": "Ozma"}
    (tmp_path / "facts.txt").write_text("no tab")
    with pytest.raises(ValueError, match="line 1: no tab"):
        read_facts(tmp_path / "facts.txt")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [{"prompt": "a", "target_new": "b"}, {"target_new": "b"}],
            r"facts\.json, record 1: 'prompt' must be",
        ),
        (
            [{"prompt": "a", "target_new": 3}],
            "record 0: 'target_new' must be a text that is not empty, got 3",
        ),
        ([{"prompt": "a", "target_new": " "}], "record 0: 'target_new' must be"),
        (["a"], "record 0: keys and values are wanted, got 'a'"),
        ([], "holds no fact"),
    ],
)
def test_a_record_that_is_no_fact_is_named_before_a_model_is_loaded(records, message, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(records))
    with pytest.raises(ValueError, match=message):
        find("longcontext").conditions(Context(None, facts=path))


def test_easyedits_methods_hold_many_edits_and_give_the_model_back(hparams, tmp_path):
    """FT's edits accumulate, score as EasyEdit's own editor scores them, and are undone; GRACE's code book,
    UltraEdit's weights and LoRA's adapters too.
    """
    pytest.importorskip("easyeditor", exc_type=ImportError)
    methods = tmp_path / "hparams"
    shutil.copytree(hparams.parent, methods / "LARIMAR")
    name = yaml.safe_load(hparams.read_text())["model_name"]
    for method, values in TINY_METHODS.items():
        (methods / method).mkdir()
        (methods / method / "tiny.yaml").write_text(
            yaml.safe_dump({"alg_name": method, "model_name": name} | values)
        )
    context = Context(methods / "LARIMAR" / "tiny.yaml", out=tmp_path / "out", baselines=EasyEditBaselines())
    edits = load_edits(limit=3)[
        ::-1
    ]  # the first one's target is one token: FT teaches all tokens at one place
    one, all_three = stage_of(edits[:1]), stage_of(edits)
    for method in context.baselines.methods(context, list(TINY_METHODS)):
        if method == "LoRA" and find_easyedit().release_2023:  # which fails with today's PEFT
            continue
        alone, together, again = context.baselines.trials(
            context, method, [Trial([one]), Trial([all_three]), Trial([Stage(scored=one.scored), one])]
        )
        unedited, edited = again
        assert together[0]["environment"]["easyedit"] == find_easyedit().version, "as its record says"
        assert len(together[0]["seconds"]) == 3 and len(records_of(together[0], edits)) == 3
        assert all(score["same"] == 1 for score in unedited["scores"]), "the model is the base model again"
        assert edited["scores"] == alone[0]["scores"] and edited["answers"] == alone[0]["answers"]
        if method != "ULTRAEDIT":  # one step, of which the tiny decoder learns little
            assert alone[0]["scores"][0]["accuracy"] == 1 > unedited["scores"][0]["accuracy"]
        texts = texts_of(context.plain_text, 2)
        life = context.baselines.lifetime(context, method, Lifetime(edits, (2,), texts=texts))
        assert [each["facts"] for each in life["reached"]] == [2, 3] and life["ended"] == "all"
        assert [record["written"] for record in life["reached"][-1]["records"]] == [
            record["rewrite"] for record in records_of(together[0], edits)
        ]
        short = context.baselines.lifetime(context, method, Lifetime(edits, (2,), 1e-9, texts))
        assert [each["facts"] for each in short["reached"]] == [1] and short["ended"] == "time"
        assert short["reached"][0]["records"][0]["written"] == alone[0]["scores"][0]["accuracy"]
        # In another sitting, of another method, it has its row, and is not run.
        later = replace(context, baselines=EasyEditBaselines(only=["MEMIT"]))
        assert method in later.baselines.methods(later, list(TINY_METHODS))
        assert later.baselines.trials(later, method, [Trial([one])]) == [alone]
        with pytest.raises(LeftOut):
            later.baselines.trials(later, method, [Trial([stage_of(edits[1:])])])
        assert short["reached"][0]["perplexity"] > 0
        assert (short["reached"][0]["perplexity"] == 1) == (method == "GRACE"), "of weights that were changed"
        single = single_edit_conditions(context, edits[:1], lambda record: record["post"])
        (post,) = next(each for each in single if each.name == method).score(edits[:1])
        assert post["rewrite_acc"] == pytest.approx(alone[0]["scores"][0]["accuracy"])


def test_recursive_reads_find_the_fact_among_many_memories():
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(70, 16, generator=generator), torch.randn(70, 24, generator=generator)
    found = read_recursively(keys, values, keys[::7], chunk=8)  # 9 memories, then 2, then 1
    torch.testing.assert_close(found, values[::7], atol=1e-3, rtol=1e-3)
    near = keys[::7] + 0.05 * torch.randn(10, 16, generator=generator)
    torch.testing.assert_close(
        read_recursively(keys, values, near, chunk=8), values[::7], atol=1e-3, rtol=1e-3
    )
    assert json.loads(FACTS.read_text()) == [
        {
            key: fact[key]
            for key in ("case_id", "relation", "subject", "prompt", "target_new", "rephrase_prompt")
        }
        for fact in facts_in_wordings(256, 2024, 0.0)
    ], "the file is what its README says"


def test_a_generated_answer_is_what_generate_says(tiny, tokenizer):
    prompts = ["The capital of Portugal is", "Water boils when it is"]
    tiny.write([{"prompt": prompts[0], "target_new": "Oslo"}])
    alone = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        made = tiny.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=tokenizer.pad_token_id)
        alone.append(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))
    assert answers(tiny, prompts, max_new_tokens=5) == alone
