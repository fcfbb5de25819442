"""What EasyEdit's methods leave of an edit that was taken back; the next one begins without it here."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch


def returning_weights(apply_algo: Callable) -> Callable:
    """UltraEdit with the weights that it changed, as they were, and with what it learned from earlier edits.

    It looks the weights up under the names of their modules, finds none and returns none: EasyEdit then puts
    nothing back, and each single edit stands on all those before. And it never notes that it has begun, so
    that the means and deviations by which it normalises, meant to be of all edits so far, are of one.
    """

    @functools.wraps(apply_algo)
    def apply(model, tok, requests, hparams, **options):
        names = {f"{name.removesuffix('.weight')}.weight" for name in hparams.inner_params}
        before = {name: value.detach().clone() for name, value in model.named_parameters() if name in names}
        edited, _ = apply_algo(model, tok, requests, hparams, **options)
        if (executor := getattr(apply_algo, "__self__", None)) is not None:
            executor.is_init = True
        return edited, before

    return apply


def unloading(apply_algo: Callable) -> Callable:
    """LoRA with what takes its adapters out again, in place of no weights; and without what its training
    leaves: no cache in generation, and a hook for every edit.
    """

    @functools.wraps(apply_algo)
    def apply(model, tok, requests, hparams, **options):
        cached = model.config.use_cache
        for module in model.modules():  # of earlier edits' adapters
            module.train(isinstance(module, torch.nn.Dropout))
        edited, _ = apply_algo(model, tok, requests, hparams, **options)
        model.config.use_cache = cached
        model.gradient_checkpointing_disable()
        model.disable_input_require_grads()
        edited.eval()  # its dropout is of training

        def unload() -> None:
            edited.unload()
            if hasattr(model, "peft_config"):  # else the next edit takes the model for one with adapters
                del model.peft_config

        return edited, unload

    return apply


def forget_earlier_edits(method: str) -> None:
    """Make the next edit one that stands on none.

    AlphaEdit keeps the keys of all its edits, so as to spare them in the next ones, and UltraEdit their means
    and deviations: also of those that were taken back.
    """
    if method == "ULTRAEDIT":
        importlib.import_module("easyeditor.util.alg_dict").ALG_DICT[method].__self__.is_init = False
    if method == "AlphaEdit":
        module: Any = importlib.import_module("easyeditor.models.alphaedit.AlphaEdit_main")
        module.cache_c_new = False
