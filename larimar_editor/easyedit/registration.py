"""Puts LARIMAR among EasyEdit's methods."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from larimar_editor.checkpoints import shipped
from larimar_editor.easyedit.finding import EasyEditSource
from larimar_editor.easyedit.mending import LlamaTokenizer, OfflineNltk, device_name
from larimar_editor.editor import EXECUTOR, LarimarRewriteExecutor
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.model.checkpoint import checkpoint_folder
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.prompts import announced_prompts
from larimar_editor.pretrained.embedded import resolve
from larimar_editor.utils.device import is_here
from larimar_editor.utils.settings import check_one

ALG_NAME = "LARIMAR"
# Editors of EasyEdit that no memory fits: they undo edits by names of the decoder's weights, edit a
# disposition, or pictures.
_OF_OTHER_KINDS = (
    ("concept_editor", "ConceptEditor"),
    ("safety_editor", "SafetyEditor"),
    ("per_editor", "PerEditor"),
    ("multimodal_editor", "MultimodalEditor"),
)


# Ways of editing, and how many of its requests a method is handed in one call.
_WRITTEN_AT_ONCE: Mapping[str, Callable[[Any, int], int]] = {
    "edit": lambda editor, count: 1,
    "edit_requests": lambda editor, count: 1,
    "generate_edit": lambda editor, count: 1,
    "batch_edit": lambda editor, count: editor.hparams.batch_size,
    "normal_edit": lambda editor, count: count,
}


def available_methods() -> list[str]:
    """Names of the methods of the EasyEdit that is imported."""
    return sorted(importlib.import_module("easyeditor.util.alg_dict").ALG_DICT)


def register(source: EasyEditSource) -> None:
    """Register with the imported EasyEdit. Calling it again changes nothing.

    Raises:
        ImportError: a main branch without an editor that was to refuse LARIMAR; nothing is registered.
    """
    methods = importlib.import_module("easyeditor.util.alg_dict").ALG_DICT
    if isinstance(_bound_to(methods.get(ALG_NAME)), LarimarRewriteExecutor):
        return
    others = _editors_of_other_kinds(source)
    apply = EXECUTOR.apply_to_model
    # The editor modules imported this very dict, so it is added to, not replaced.
    methods[ALG_NAME] = _as_in_2023(apply) if source.release_2023 else apply
    editing: Any = importlib.import_module("easyeditor.editors.editor")
    if source.release_2023:
        editing.LlamaTokenizer = LlamaTokenizer
    batch = importlib.import_module("easyeditor.editors.batch_editor").BatchEditor
    batch.is_batchable_method = staticmethod(_or_larimar(batch.is_batchable_method))
    editing.BaseEditor.__init__ = _wrapping_init(editing.BaseEditor.__init__)
    if hasattr(editing.BaseEditor, "normal_edit"):
        editing.BaseEditor.normal_edit = _keeping_edits(editing.BaseEditor.normal_edit)
    for name, at_once in _WRITTEN_AT_ONCE.items():
        if hasattr(editing.BaseEditor, name):
            setattr(editing.BaseEditor, name, _checking_all(getattr(editing.BaseEditor, name), at_once))
    for other in others:
        other.__init__ = _refusing_init(other.__init__)
    summaries: Any = sys.modules.get("easyeditor.editors.utils")
    if hasattr(summaries, "collect_metric_values"):  # the release of 2023 has no summary
        summaries.collect_metric_values = _of_each_edit(summaries.collect_metric_values)
    _replace_measure(in_template=not source.release_2023)
    scores: Any = importlib.import_module("easyeditor.evaluate.evaluate_utils")
    scores.nltk = OfflineNltk(scores.nltk)


def _editors_of_other_kinds(source: EasyEditSource) -> list[Any]:
    """`_OF_OTHER_KINDS`, of which the release of 2023 has but one."""
    found = {
        name: getattr(sys.modules.get(f"easyeditor.editors.{module}"), name, None)
        for module, name in _OF_OTHER_KINDS
    }
    missing = [name for name, editor in found.items() if editor is None]
    if missing and not source.release_2023:
        raise ImportError(
            f"this main branch of EasyEdit has no {missing[0]}, which would have to refuse LARIMAR: use an "
            "earlier one, or a later larimar_editor",
            name="easyeditor",
        )
    return [editor for editor in found.values() if editor is not None]


def _bound_to(method: Any) -> Any:
    """What a method, perhaps wrapped, is of: an EasyEdit may have a LARIMAR of its own, which calls this
    one.
    """
    return getattr(getattr(method, "__wrapped__", method), "__self__", None)


def _as_in_2023(apply):
    """The release of 2023 restores only what a method returns, and asks for it with
    ``keep_original_weight``.
    """

    @functools.wraps(apply)
    def apply_to_model(*args, keep_original_weight=False, **kwargs):
        model, weights_copy = apply(*args, keep_original_weight=keep_original_weight, **kwargs)
        return model, weights_copy if keep_original_weight else {}

    return apply_to_model


def _or_larimar(is_batchable):
    @functools.wraps(is_batchable)
    def is_batchable_method(alg_name: str) -> bool:
        return alg_name == ALG_NAME or is_batchable(alg_name)

    return is_batchable_method


def _wrapping_init(original):
    """Names of embedded models become folders; a LARIMAR editor's model is a Larimar from the start."""

    @functools.wraps(original)
    def __init__(self, hparams, *args, **kwargs):
        if isinstance(getattr(hparams, "model_name", None), str):
            name = hparams.model_name
            hparams.model_name = _loadable(resolve(name), name)
            if getattr(hparams, "alg_name", None) == ALG_NAME:  # before a large decoder is loaded for nothing
                check_one(LarimarHyperParams, "evaluation_type", getattr(hparams, "evaluation_type", None))
                _check_is_here(hparams.device)
                checkpoint_folder(hparams.larimar_checkpoint or shipped(name), name)
        original(self, hparams, *args, **kwargs)
        if self.alg_name == ALG_NAME:
            is_new = not EXECUTOR.has_model(self.model)
            self.model = EXECUTOR.init_model(self.model, self.tok, hparams)
            if is_new:
                # The editor holds the Larimar, and that the decoder: were the latter to hold the former, both
                # would be in memory until the next collection, beside what a notebook loads after `del
                # editor`.
                EXECUTOR.forget_model(self.model.decoder)

    return __init__


def _check_is_here(device: int | str) -> None:
    if not is_here(device_name(device)):
        there = torch.cuda.device_count()
        raise ValueError(f"device {device!r} is not here: torch finds {there} GPUs; set another, or cpu")


def _keeping_edits(normal_edit):
    """EasyEdit takes back what a method says that it has changed, and of LARIMAR that would be its facts."""

    @functools.wraps(normal_edit)
    def kept(self, *args, **kwargs):
        if self.alg_name != ALG_NAME:
            return normal_edit(self, *args, **kwargs)
        apply, undo = self.apply_algo, {}

        def without_undo(*given, **options):
            model, weights_copy = apply(*given, **options)
            undo.update(weights_copy)
            return model, {}

        self.apply_algo = without_undo
        try:
            metrics, model, _ = normal_edit(self, *args, **kwargs)
        finally:
            self.apply_algo = apply
        return metrics, model, undo

    return kept


def _checking_all(edit, at_once: Callable[[Any, int], int]):
    """LARIMAR's requests are all looked at before the first is evaluated and edited: one that is refused when
    its turn comes takes with it what was measured of all before.
    """
    call = inspect.signature(edit).bind

    @functools.wraps(edit)
    def checked(self, *args, **kwargs):
        if isinstance(self.model, LarimarForCausalLM):
            given = call(self, *args, **kwargs).arguments
            requests = given.get("requests", given.get("kwargs", {}).get("requests"))
            if requests is None:
                prompts, targets = (
                    [each] if isinstance(each, str) else each
                    for each in (given["prompts"], given["target_new"])
                )
                requests = [{"prompt": prompt, "target_new": new} for prompt, new in zip(prompts, targets)]
            block = max(1, at_once(self, len(requests)))
            for start in range(0, len(requests), block):
                self.model.checked(requests[start : start + block])
        return edit(self, *args, **kwargs)

    return checked


def _of_each_edit(collect):
    """EasyEdit's summary takes the mean of a list of lists, which fails where one edit has more rephrasings
    than another, after the last edit: here each edit's own mean is collected, as it does for localities.
    """

    @functools.wraps(collect)
    def collect_metric_values(*args, **kwargs):
        return [np.mean(values) for values in collect(*args, **kwargs) if np.size(values)]

    return collect_metric_values


def _loadable(folder: str, name: str) -> str:
    """EasyEdit picks a loader by what is in a model's name, and an embedded model's is now its folder."""
    taken = next((family for family in ("t5", "gpt", "chatglm") if family in folder.lower()), None)
    if folder != name and taken is not None and taken not in name.lower():
        raise ValueError(
            f"EasyEdit would take {name} for a {taken}, as that is in the path of its folder {folder}: set "
            "LARIMAR_CACHE to another one"
        )
    return folder


def _refusing_init(original):
    """Of an editor that has no use for a memory of facts."""

    @functools.wraps(original)
    def __init__(self, hparams, *args, **kwargs):
        if getattr(hparams, "alg_name", None) == ALG_NAME:
            raise NotImplementedError(
                f"{type(self).__name__} does not know LARIMAR's edits, nor how to undo them: use BaseEditor"
            )
        original(self, hparams, *args, **kwargs)

    return __init__


def _as_a_turn(tok, prompt: str) -> str:
    turn = [{"role": "user", "content": prompt}]
    return tok.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)


def _replace_measure(in_template: bool) -> None:
    """Put EasyEdit's token accuracy, as it is mended here, wherever EasyEdit has imported it.

    Args:
        in_template: see `_announcing_prompts`.
    """
    original = importlib.import_module("easyeditor.evaluate.evaluate_utils").test_prediction_acc
    mended = _scoring_each_of_several(_announcing_prompts(original, in_template))
    for name, module in list(sys.modules.items()):
        if (
            name.partition(".")[0] == "easyeditor"
            and getattr(module, "test_prediction_acc", None) is original
        ):
            vars(module)["test_prediction_acc"] = mended


def _scoring_each_of_several(measure):
    """Several rephrasings of one edit are each scored against its target, of every method alike. As it
    stands, EasyEdit's token accuracy scores them against the letters of the target, one each.
    """

    @functools.wraps(measure)
    def test_prediction_acc(model, tok, hparams, prompts, targets, *args, **kwargs):
        if isinstance(targets, str) and not isinstance(prompts, str):
            targets = [targets] * len(prompts)
        return measure(model, tok, hparams, prompts, targets, *args, **kwargs)

    return test_prediction_acc


def _announcing_prompts(measure, in_template: bool):
    """Tell the model where the prompt ends: evaluation joins prompt and target before it calls the model.

    Args:
        measure: EasyEdit's token accuracy.
        in_template: whether this EasyEdit puts a chat template around a prompt where ``use_chat_template`` is
            set.
    """
    called_with = inspect.signature(measure).bind

    @functools.wraps(measure)
    def test_prediction_acc(model, tok, hparams, prompts, targets, *args, **kwargs):
        unasked = not isinstance(model, LarimarForCausalLM) or getattr(hparams, "scope_sees_target", False)
        call = called_with(model, tok, hparams, prompts, targets, *args, **kwargs).arguments
        if unasked or call.get("vanilla_generation"):
            return measure(model, tok, hparams, prompts, targets, *args, **kwargs)
        # What has no target is not asked there.
        asked = [prompts] if isinstance(prompts, str) else prompts[: len(targets)]
        if in_template and getattr(hparams, "use_chat_template", False) and not call.get("locality"):
            asked = [_as_a_turn(tok, prompt) for prompt in asked]
        # A space joins prompt and target there, whatever the prompt ends with.
        with announced_prompts([f"{prompt} " for prompt in asked]):
            return measure(model, tok, hparams, prompts, targets, *args, **kwargs)

    return test_prediction_acc
