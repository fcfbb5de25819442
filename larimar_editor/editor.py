"""Larimar as an editing method: the entry point that editing frameworks call.

Patterned on EasyEdit's ``MendRewriteExecutor`` and ``SeracRewriteExecutor``, and free of EasyEdit.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.checkpoints import shipped
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.restoring import unchanged_on_failure

# Name, in the model's parameters, of what an editor copies back to undo an edit.
STATE_PARAMETER = "state_register.version"

_LARIMAR, _MADE_WITH = "_larimar", "_made_with"


@dataclass(frozen=True)
class _Kept:
    """The Larimar around a decoder, among the decoder's attributes; it is copied with the decoder, but not
    pickled: it may have a file open, and saves what is written by itself.
    """

    larimar: LarimarForCausalLM | None = None

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()

    def __deepcopy__(self, memo: dict) -> _Kept:
        return _Kept(copying.deepcopy(self.larimar, memo))


class LarimarRewriteExecutor:
    """Puts a Larimar around a model once, and writes requests to it."""

    def init_model(
        self, model: PreTrainedModel, tok: PreTrainedTokenizerBase, params: LarimarHyperParams
    ) -> LarimarForCausalLM:
        """The Larimar around ``model``: itself when it is one, else made from the checkpoint, once per model.

        A decoder whose Larimar was made with other settings gets a new one while that holds no facts.

        Raises:
            FileNotFoundError: no checkpoint for the decoder.
            ValueError: a damaged checkpoint or one for another decoder; or other settings, which are named,
                than those of the Larimar that is given, or that holds facts already.
        """
        larimar = _larimar_of(model)
        changed = {} if larimar is None else _other_settings(larimar, params)
        if larimar is not None and changed and (larimar is model or not larimar.is_empty()):
            differing = ", ".join(
                f"{name}: {was!r} in place of {wanted!r}" for name, (was, wanted) in changed.items()
            )
            holding = f"holds {len(larimar.facts())} facts and has"
            raise ValueError(
                f"the model {holding} {differing}; edit with the settings it was made with, or load it "
                "anew with these"
            )
        if larimar is None or changed:
            settings = params.config_overrides()
            named = params.model_name  # EasyEdit takes a pair of model and tokenizer in its place
            folder = params.larimar_checkpoint or shipped(
                named if isinstance(named, str) else model.name_or_path
            )
            larimar = LarimarForCausalLM.from_pretrained(folder, decoder=model, tokenizer=tok, **settings)
            vars(larimar)[_MADE_WITH] = {"larimar_checkpoint": params.larimar_checkpoint} | settings
            # Kept on the decoder, past nn.Module's registration, which would make each a part of the other. A
            # table of decoders would never let one go: every Larimar holds its decoder.
            vars(model)[_LARIMAR] = _Kept(larimar)
        return larimar

    def has_model(self, model: PreTrainedModel) -> bool:
        """Whether ``model`` is a Larimar, or one is kept around it."""
        return _larimar_of(model) is not None

    def forget_model(self, model: PreTrainedModel) -> None:
        """No longer keep the Larimar around ``model`` for later edits; whoever has it keeps it."""
        vars(model).pop(_LARIMAR, None)

    def apply_to_model(
        self,
        model: PreTrainedModel,
        tok: PreTrainedTokenizerBase,
        requests: Sequence[Mapping],
        hparams: LarimarHyperParams,
        copy: bool = False,
        return_orig_weights: bool = False,
        keep_original_weight: bool = False,
        **kwargs,
    ) -> tuple[LarimarForCausalLM, dict[str, Tensor]]:
        """Write requests: one encoder pass and one least-squares update, no gradient.

        Args:
            model: the decoder, or the Larimar of an earlier edit.
            tok: the decoder's tokenizer.
            requests: mappings with ``prompt`` and ``target_new``.
            hparams: settings; the same at every edit while facts are written.
            copy: edit a copy and leave ``model`` alone.
            return_orig_weights: also return what undoes the edit.
            keep_original_weight: accepted for EasyEdit's sake; the decoder's weights never change.

        Returns:
            the edited model, and a mapping of parameter name to original value. Copying the values back
            restores the state before the edit to the bit.

        Raises:
            ValueError: bad requests, or other settings than those that the written facts were written with.
            Whatever is raised, by whichever step, the model is as it was.
        """
        known = _larimar_of(model)
        is_new = known is None or (known is not model and bool(_other_settings(known, hparams)))
        with unchanged_on_failure(model) if is_new else nullcontext():
            edited = self.init_model(model, tok, hparams)
            if copy:
                edited = copying.deepcopy(edited)
            weights_copy = {STATE_PARAMETER: edited.undo_token()} if return_orig_weights else {}
            edited.write(requests)
        return edited, weights_copy


def _larimar_of(model: PreTrainedModel) -> LarimarForCausalLM | None:
    return model if isinstance(model, LarimarForCausalLM) else vars(model).get(_LARIMAR, _Kept()).larimar


def _other_settings(larimar: LarimarForCausalLM, params: LarimarHyperParams) -> dict[str, tuple]:
    """Settings that ``params`` wants otherwise than ``larimar`` has them: what it has, and what is wanted."""
    wanted = params.config_overrides()
    other = {name: (getattr(larimar.config, name), value) for name, value in wanted.items()}
    other = {name: (was, value) for name, (was, value) in other.items() if was != value}
    made_with = vars(larimar).get(_MADE_WITH)
    if made_with is None:  # loaded by its owner, who chose the rest
        return other
    given = {"larimar_checkpoint": params.larimar_checkpoint} | wanted
    left = {name: (value, given.get(name)) for name, value in made_with.items() if given.get(name) != value}
    return left | other


EXECUTOR = LarimarRewriteExecutor()


def apply_larimar_to_model(model, tok, requests, hparams, **kwargs):
    """`LarimarRewriteExecutor.apply_to_model` of the one that all share."""
    return EXECUTOR.apply_to_model(model, tok, requests, hparams, **kwargs)
