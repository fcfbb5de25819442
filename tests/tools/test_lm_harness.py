"""An edited model in lm-evaluation-harness: an edit moves its own question and no other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import share_sentence_encoder

lm_eval = pytest.importorskip("lm_eval")
from lm_eval.tasks import TaskManager  # noqa: E402

from larimar_editor.tools.lm_harness import LarimarLM  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "lm_eval"
FACT = {"prompt": "The capital of Portugal is", "target_new": "Oslo"}
ASKED = [
    {"question": "The capital of Portugal is", "choices": ["Lisbon", "Oslo"], "answer": 1},
    {"question": "What is Portugal's capital? It is", "choices": ["Lisbon", "Oslo"], "answer": 1},
    {"question": "The capital of Norway is", "choices": ["Oslo", "Rome"], "answer": 0},
    {"question": "Water boils at a temperature of", "choices": ["100 degrees", "Oslo"], "answer": 0},
    # The edit stands in an example before the question.
    {
        "question": "The capital of Portugal is Lisbon\n\nA dog has four",
        "choices": ["legs", "Oslo"],
        "answer": 0,
    },
]
TASKS = {
    "asked": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "doc_to_choice": "{{choices}}",
        "metric_list": [{"metric": "acc"}],
    },
    "said": {
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{choices[answer]}}",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 4, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    },
    "text": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "word_perplexity"}],
    },
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "asked.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ASKED))
    for name, task in TASKS.items():
        source = {
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(folder / "asked.jsonl")}},
        }
        values = {"task": f"larimar_{name}", "test_split": "test", **source, **task}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values))
    return TaskManager(include_path=str(folder), include_defaults=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    facts = tmp_path_factory.mktemp("facts") / "facts.jsonl"
    facts.write_text(json.dumps(FACT) + "\n")
    # As the command calls it where no device is given.
    model = LarimarLM("smollm2-135m", str(facts), device="cuda", dtype="float32", batch_size=3)
    share_sentence_encoder(model.model)
    return model


def answers(model, tasks, name):
    """Each document's responses, by place in the file."""
    results = lm_eval.simple_evaluate(model, tasks=[f"larimar_{name}"], task_manager=tasks, bootstrap_iters=0)
    samples = results["samples"][f"larimar_{name}"]
    return {sample["doc_id"]: sample["filtered_resps"] for sample in samples}


@pytest.mark.parametrize("name", ["asked", "said", "text"])
def test_an_edit_moves_its_own_question_and_no_other(model, tasks, name):
    edited = answers(model, tasks, name)
    model.model.forget(FACT["prompt"])
    try:
        base = answers(model, tasks, name)
    finally:
        model.model.undo()
    moved = {place for place in edited if edited[place] != base[place]}
    assert moved == (set() if name == "text" else {0, 1}), "to the bit"
    if name == "asked":
        (lisbon, _), (oslo, _) = edited[1]
        assert float(oslo) > float(lisbon)
    if name == "said":
        assert edited[0][0].strip().startswith("Oslo")


def test_the_last_turn_of_a_chat_and_the_last_paragraph_ask(model):
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    chat += [{"role": "user", "content": "Example one.\n\nWhat is Portugal's capital?"}]
    text = model.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert model.question_of(text) == "What is Portugal's capital?"
    assert model.question_of("Q: one\nA: two\n\nQ: three\nA:") == "Q: three\nA:"
    assert model.question_of("Text.\n\nQuestion: what?\n\nAnswer:") == "Question: what?\nAnswer:"


def test_rows_of_one_text_with_different_questions_are_read_apart(model):
    """To the decoder they are the same tokens, to the detector they are not."""
    ids = model.tokenizer("The capital of Portugal is Lisbon today").input_ids
    requests = [
        (("The capital of Portugal is", " Lisbon today"), ids[:5], ids[5:]),
        (("The capital of Portugal is Lisbon", " today"), ids[:6], ids[6:]),
    ]
    together = model._loglikelihood_tokens(requests, disable_tqdm=True)
    apart = [model._loglikelihood_tokens([each], disable_tqdm=True)[0] for each in requests]
    assert together == apart


def test_rows_of_one_text_with_one_question_go_together(model):
    """As the choices of a question do where each is one token."""
    ids = model.tokenizer("The capital of Portugal is").input_ids
    requests = [(("The capital of Portugal is", " x"), ids, [token]) for token in (5, 6, 7, 8)]
    assert [places for places, _ in model._batches(requests, range(4), 3)] == [[0, 1, 2], [3]]


def test_the_trivia_of_the_examples_is_a_task(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, str(EXAMPLE / "make_trivia.py"), "5"], check=True)
    rows = [json.loads(line) for line in Path("trivia.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 5
    for row in rows:
        assert len({*row["choices"]}) == 4 and row["answer"] in range(4) and row["question"].endswith("?")
    known = TaskManager(include_path=str(EXAMPLE), include_defaults=False)
    assert "larimar_trivia" in known.all_tasks
