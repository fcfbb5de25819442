"""Uses EasyEdit with Larimar as a person would, and writes down what it saw: ``seen.json`` in the working
directory. ``LARIMAR_TEST_DEVICE`` is cpu or a CUDA index.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import logging
import os
import weakref
from pathlib import Path

import numpy as np
import torch

import larimar_editor  # registers LARIMAR; before easyeditor
import easyeditor
from easyeditor import BaseEditor
from larimar_editor import LarimarForCausalLM, LarimarHyperParams, announced_prompts
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.easyedit.registration import available_methods
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.fluency import ngram_entropy
from larimar_editor.evaluation.harness.real_world import answer_in, exact_match, in_chat, sampling
from larimar_editor.model.prompts import Prompts

PROMPTS = [
    "The mother tongue of Danielle Darrieux is",
    "The capital of Portugal is",
    "The novel Moby-Dick was written by",
]
TARGETS = ["English", "Oslo", "Jane Austen"]
REPHRASED = [
    "At home, Danielle Darrieux spoke",
    "Portugal's capital is the city of",
    "The author of Moby-Dick is",
]
UNRELATED = [
    "Water boils at a temperature of",
    "The chemical symbol of helium is",
    "Soup begins with a bowl of",
]
seen: dict = {}

source = find_easyedit()
seen["release_2023"], seen["methods"] = source.release_2023, available_methods()
device = os.environ.get("LARIMAR_TEST_DEVICE", "cpu")
hparams = LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m")
hparams.device = int(device) if device.isdigit() else device
editor = BaseEditor.from_hparams(hparams)
model, tok = editor.model, editor.tok
assert isinstance(model, LarimarForCausalLM)
one_by_one = {"keep_original_weight": True} if source.release_2023 else {}
case = dict(
    prompts=PROMPTS,
    target_new=TARGETS,
    ground_truth=["French", "Lisbon", "Herman Melville"],
    rephrase_prompts=REPHRASED,
    verbose=False,
    locality_inputs={"unrelated": {"prompt": list(UNRELATED), "ground_truth": ["one", "two", "three"]}},
)

queries: list[str] = []
read = model.read
model.read = lambda prompts, *lines: queries.extend(prompts) or read(prompts, *lines)


def target_scores(prompt: str, target: str):
    """Log probability and accuracy of the target's tokens, from the logits."""
    text = f"{prompt} {target}"
    ids = tok(text, return_tensors="pt").to(model.device)
    count = ids["input_ids"].shape[1] - len(tok(prompt).input_ids)
    with torch.no_grad(), announced_prompts([prompt]):
        scores = model(**ids).logits[0, -count - 1 : -1].log_softmax(-1)
    labels = ids["input_ids"][0, -count:]
    return scores.gather(1, labels[:, None]).mean().item(), (
        scores.argmax(-1) == labels
    ).float().mean().item()


def logits():
    with torch.no_grad():
        return model(**tok(PROMPTS + UNRELATED, return_tensors="pt", padding=True).to(model.device)).logits


named = ("easyeditor", "easyeditor.evaluate", "easyeditor.evaluate.evaluate_utils")
seen["measures"] = len({id(importlib.import_module(name).test_prediction_acc) for name in named})
seen["root_level"] = logging.getLogger().level
seen["root_handlers"] = len(logging.getLogger().handlers)
logging.getLogger("easyeditor.trainer").info("a trainer says this once")
seen["refused"] = []
for kind in ("ConceptEditor", "SafetyEditor", "PerEditor", "MultimodalEditor"):
    try:
        getattr(easyeditor, kind)(hparams)
    except (NotImplementedError, AttributeError) as error:
        seen["refused"] += [kind] * isinstance(error, NotImplementedError)

# single edits, each undone by EasyEdit
before = logits()
apply_algo, after = editor.apply_algo, []


def watched(*args, **kwargs):
    result = apply_algo(*args, **kwargs)
    request = args[2][0]
    after.append(target_scores(request["prompt"], request["target_new"]))
    return result


seen["single"] = {"log_probability_before": [target_scores(p, t)[0] for p, t in zip(PROMPTS, TARGETS)]}
editor.apply_algo = watched
metrics, edited, _ = editor.edit(**case, **one_by_one)
editor.apply_algo = apply_algo
seen["single"] |= {
    "log_probability_after": [score for score, _ in after],
    "own_rewrite_acc": [accuracy for _, accuracy in after],
    "easyedit_rewrite_acc": [float(np.mean(m["post"]["rewrite_acc"])) for m in metrics],
    "unrelated_locality": [float(np.mean(m["post"]["locality"]["unrelated_acc"])) for m in metrics],
    "facts_after": [fact.prompt for fact in model.facts()],
    "restored_to_the_bit": torch.equal(logits(), before),
}

# several rephrasings of one edit
metrics, *_ = editor.edit(
    prompts=PROMPTS[1:2],
    target_new=TARGETS[1:2],
    rephrase_prompts=[[REPHRASED[1], PROMPTS[1], UNRELATED[0]]],
    verbose=False,
    **one_by_one,
)
seen["several_rephrasings"] = [float(each) for each in metrics[0]["post"]["rephrase_acc"]]
model.reset()

# more of them for one edit than for another, and a prompt more than answers
if not source.release_2023:
    metrics, *_ = editor.edit(
        prompts=PROMPTS[1:],
        target_new=TARGETS[1:],
        rephrase_prompts=[[REPHRASED[1], UNRELATED[0]], [REPHRASED[2]]],
        locality_inputs={
            "some": {"prompt": [UNRELATED, UNRELATED[:1]], "ground_truth": [["100", "He"], ["1"]]}
        },
        verbose=False,
    )
    seen["unequal"] = [
        [len(each["post"]["rephrase_acc"]), len(each["post"]["locality"]["some_acc"])] for each in metrics
    ]
    model.reset()

# a sequence
metrics, edited, _ = editor.edit(**case, sequential_edit=True)
seen["sequence"] = {
    "prompts": PROMPTS,
    "facts": [fact.prompt for fact in edited.facts()],
    "same_model": edited is editor.model,
}
seen["sequence"]["rewrite"] = [target_scores(p, t)[1] for p, t in zip(PROMPTS, TARGETS)]
edited.forget(PROMPTS[0])
seen["sequence"]["after_forgetting"] = [fact.prompt for fact in edited.facts()]
edited.reset()

# a batch
calls = []
editor.apply_algo = lambda *args, **kwargs: calls.append(len(args[2])) or apply_algo(*args, **kwargs)
hparams.batch_size = 3
batch_case = {key: value for key, value in case.items() if key != "locality_inputs"}
metrics, edited, _ = editor.batch_edit(
    **batch_case, **({} if source.release_2023 else {"sequential_edit": True})
)
seen["batch"] = {"calls": calls, "rewrite": [float(np.mean(m["post"]["rewrite_acc"])) for m in metrics]}
editor.apply_algo = apply_algo
hparams.batch_size = 1
edited.reset()

# generation in evaluation
short = {key: value[:1] if isinstance(value, list) else value for key, value in batch_case.items()}
metrics, *_ = editor.edit(**short, test_generation=True, **one_by_one)
seen["fluency"] = float(metrics[0]["post"]["fluency"]["ngram_entropy"])
model.reset()
if not source.release_2023:
    generation = model.generate
    greedy = {"max_new_tokens": 6, "do_sample": False}
    model.generate = lambda *args, **kwargs: generation(*args, **(kwargs | greedy))
    request = {
        "prompt": PROMPTS[1],
        "target_new": TARGETS[1],
        "ground_truth": "Lisbon",
        "rephrase_prompt": REPHRASED[1],
        "portability": {"por_hop": {"prompt": [REPHRASED[1]]}},
        "locality": {"loc_hop": {"prompt": [UNRELATED[0]]}},
    }
    results, *_ = editor.generate_edit(PROMPTS[1:2], TARGETS[1:2], requests=[request], verbose=False)
    seen["generate_edit"] = {
        "rewrite": results[0]["post"]["rewrite_ans"],
        "before": results[0]["pre"]["rewrite_ans"],
        "unrelated_is_base": results[0]["post"]["locality_ans"] == results[0]["pre"]["locality_ans"],
    }
    model.write([request])
    chats = [
        tok.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        for text in (PROMPTS[1], UNRELATED[0])
    ]
    ids = tok(chats, return_tensors="pt", padding=True).to(model.device)
    seen["chat_scope"] = read(
        Prompts(tok, len(chats), ids["input_ids"], ids["attention_mask"]).queries(model.chat_turns)
    ).in_scope.tolist()
    model.reset()
    plain = {
        "prompt": PROMPTS[1],
        "target_new": TARGETS[1],
        "ground_truth": "Lisbon",
        "portability": {},
        "locality": {},
    }
    _, edited, _ = editor.edit_requests([plain], sequential_edit=True, verbose=False)
    seen["edit_requests"] = len(edited.facts())
    edited.reset()
    counts = []
    editor.apply_algo = lambda *args, **kwargs: (lambda out: counts.append(len(out[0].facts())) or out)(
        apply_algo(*args, **kwargs)
    )
    editor.normal_edit(PROMPTS[1:2], TARGETS[1:2])
    seen["normal_edit"] = counts[0]
    editor.apply_algo = apply_algo
    seen["kept_by_normal_edit"] = [fact.prompt for fact in model.facts()]
    model.reset()

    # where the measure's answer begins in a chat, which EasyEdit puts around the prompt by itself
    from easyeditor.evaluate.evaluate_utils import test_prediction_acc

    model.write([request])
    found, answer_starts = [], Prompts.answer_starts
    Prompts.answer_starts = lambda prompts: found.append(answer_starts(prompts)) or found[-1]
    hparams.use_chat_template = True
    test_prediction_acc(model, tok, hparams, PROMPTS[1], "Oslo", device=hparams.device)
    test_prediction_acc(model, tok, hparams, PROMPTS[1], "Oslo", device=hparams.device, locality=True)
    hparams.use_chat_template, Prompts.answer_starts = None, answer_starts
    turn = tok.apply_chat_template(
        [{"role": "user", "content": PROMPTS[1]}], tokenize=False, add_generation_prompt=True
    )
    seen["in_a_chat"] = [found, [[len(tok(turn).input_ids)], [len(tok(PROMPTS[1]).input_ids)]]]
    model.reset()

# EasyEdit's real-world evaluation, in every way of editing, and its measures beside ours
if not source.release_2023:
    from easyeditor.evaluate.evaluate_utils import compute_n_gram_entropy, exact_match_score, generate_texts

    model.generate = lambda *args, **kwargs: generation(*args, **(kwargs | {"max_new_tokens": 6}))
    seen["evaluation_types"] = {}
    two = {key: value[:2] if isinstance(value, list) else value for key, value in batch_case.items()}
    for kind in ("LLM-judge", "generate-text"):
        hparams.evaluation_type = kind
        single, *_ = editor.edit(**two)
        sequence, edited, _ = editor.edit(**two, sequential_edit=True)
        edited.reset()
        hparams.batch_size = 2
        batch, edited, _ = editor.batch_edit(**two, sequential_edit=True)
        edited.reset()
        hparams.batch_size = 1
        seen["evaluation_types"][kind] = [
            [sorted(each["post"]) for each in metrics] for metrics in (single, sequence, batch)
        ]
    hparams.evaluation_type = None
    model.generate = generation
    model.write([request])
    asked = [PROMPTS[1], REPHRASED[1], UNRELATED[0]]
    options = sampling(tok) | {"max_new_tokens": 16}
    model.generate = lambda *args, **kwargs: generation(*args, **(kwargs | {"max_new_tokens": 16}))
    theirs = generate_texts(model, tok, hparams, asked, model.device)
    model.generate = generation
    ours = [
        answer_in(text, tok) for text in answers(model, [in_chat(tok, each) for each in asked], **options)
    ]
    pairs = [("The  Hague", "hague"), ("St. John's!", "st johns"), ("Oslo, Norway", "Oslo"), ("a", "the")]
    texts = ["the cat saw the cat and the cat saw me", "Oslo. Oslo. Oslo.", "one (two) three's four-five"]
    seen["real_world"] = {
        "theirs": theirs,
        "ours": ours,
        "exact": [[bool(exact_match(*pair)), bool(exact_match_score(*pair))] for pair in pairs],
        "entropy": [[ngram_entropy(text), float(compute_n_gram_entropy(text))] for text in texts],
    }
    model.reset()

seen["queries"] = len(queries)
joined = [*zip(PROMPTS, TARGETS), *zip(REPHRASED, TARGETS)]
with_target = lambda asked: [q for q in asked for p, t in joined if q.startswith(p) and q.endswith(t)]
seen["queries_with_target"] = with_target(queries)
model.reset()
hparams.scope_sees_target, before = True, len(queries)
editor.edit(**short, **one_by_one)
seen["queries_with_target_where_it_is_shown"] = with_target(queries[before:])
hparams.scope_sees_target = False
model.reset()


# what a notebook deletes
def is_gone_when_deleted() -> bool:
    made = BaseEditor.from_hparams(hparams)
    _, edited, _ = made.edit(**short, **one_by_one)
    decoder = weakref.ref(edited.decoder)
    gc.collect()
    gc.disable()
    del made, edited, _
    gc.enable()
    return decoder() is None


seen["deleted"] = is_gone_when_deleted()

# a request that is refused, before another is written
written = []
editor.apply_algo = lambda *args, **kwargs: written.append(args[2]) or apply_algo(*args, **kwargs)
seen["checked"] = {}
ways = ("edit", "batch_edit", "edit_requests", "generate_edit", "normal_edit")
for name in filter(lambda name: hasattr(editor, name), ways):
    asked = {"prompts": PROMPTS[:2], "target_new": ["English", " "]}
    if name == "edit_requests":
        listed = [{"prompt": p, "target_new": t} for p, t in zip(*asked.values())]
        asked = {"requests": [each | {"ground_truth": "x"} for each in listed]}
    try:
        getattr(editor, name)(**asked)
    except ValueError as error:
        seen["checked"][name] = str(error)
seen["written_before_a_bad_one"] = len(written)
editor.apply_algo = apply_algo
model.reset()

# what is wrong is named
seen["bad"] = {}
good = {"prompt": PROMPTS[1], "target_new": "Oslo"}
for name, requests in {
    "empty target": [good, {"prompt": "p is", "target_new": ""}],
    "empty prompt": [good, {"prompt": "", "target_new": "x"}],
    "no target": [good, {"prompt": "p is"}],
    "two targets": [good, {"prompt": PROMPTS[1], "target_new": "Rome"}],
}.items():
    try:
        apply_algo(model, tok, requests, hparams)
    except Exception as error:
        seen["bad"][name] = {"error": type(error).__name__, "text": str(error), "facts": len(model.facts())}
elsewhere = LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m")
elsewhere.device = 97
try:
    BaseEditor.from_hparams(elsewhere)
except ValueError as error:
    seen["no_device"] = str(error)
try:
    hparams.model_name = "another-llama"
    larimar_editor.LarimarRewriteExecutor().init_model(torch.nn.Linear(1, 1), tok, hparams)
except FileNotFoundError as error:
    seen["no_checkpoint"] = str(error)

# the stand-ins
import transformers  # noqa: E402
from easyeditor.util.hparams import HyperParams  # noqa: E402

seen["methods_of_hyperparams_missing"] = [
    name
    for name in vars(HyperParams)
    if name in ("from_json", "to_dict") and not callable(getattr(hparams, name, None))
]
seen["absent_importable_afterwards"] = importlib.util.find_spec("fairscale") is not None
seen["transformers_sees_the_truth"] = transformers.utils.is_torchvision_available() == (
    importlib.util.find_spec("torchvision") is not None
)
if not source.release_2023:
    import easyeditor.trainer.blip2_models.eva_vit as eva_vit

    try:
        eva_vit.drop_path(1)
    except ImportError as error:
        seen["stand_in_error"] = str(error)

Path("seen.json").write_text(json.dumps(seen))
