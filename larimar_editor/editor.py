"""Larimar as an editing method: the entry point that editing frameworks call.

Patterned on EasyEdit's ``MendRewriteExecutor`` and ``SeracRewriteExecutor``, and free of EasyEdit.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.checkpoints import shipped
from larimar_editor.facts import facts_from
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.modeling import LarimarForCausalLM
from larimar_editor.restoring import unchanged_on_failure

# Name, in the model's parameters, of what an editor copies back to undo an edit.
STATE_PARAMETER = "episodic.state_register.version"

_LARIMAR = "_larimar"


class LarimarRewriteExecutor:
    """Puts a Larimar around a model once, and writes requests to it."""

    def init_model(self, model: PreTrainedModel, tok: PreTrainedTokenizerBase, params: LarimarHyperParams) -> LarimarForCausalLM:
        """The Larimar around ``model``: itself when it is one, else made from the checkpoint, once per model.

        Raises:
            FileNotFoundError: no checkpoint for the decoder.
            ValueError: a damaged checkpoint or one for another decoder.
        """
        larimar = _larimar_of(model)
        if larimar is None:
            folder = str(params.larimar_checkpoint or shipped(params.model_name))
            larimar = LarimarForCausalLM.from_pretrained(folder, decoder=model, tokenizer=tok, **params.config_overrides())
            # Kept on the decoder, past nn.Module's registration, which would make each a part of the other. A table of
            # decoders would never let one go: every Larimar holds its decoder.
            vars(model)[_LARIMAR] = larimar
        return larimar

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
            hparams: settings; read when the Larimar is made.
            copy: edit a copy and leave ``model`` alone.
            return_orig_weights: also return what undoes the edit.
            keep_original_weight: accepted for EasyEdit's sake; the decoder's weights never change.

        Returns:
            the edited model, and a mapping of parameter name to original value. Copying the values back
            restores the state before the edit to the bit.

        Raises:
            ValueError: bad requests.
            Whatever is raised, by whichever step, the model is as it was.
        """
        facts = facts_from(requests)
        with unchanged_on_failure(model) if _larimar_of(model) is None else nullcontext():
            edited = self.init_model(model, tok, hparams)
            if copy:
                edited = copying.deepcopy(edited)
            weights_copy = {STATE_PARAMETER: edited.episodic.undo_token()} if return_orig_weights else {}
            edited.write(facts)
        return edited, weights_copy


def _larimar_of(model: PreTrainedModel) -> LarimarForCausalLM | None:
    return model if isinstance(model, LarimarForCausalLM) else vars(model).get(_LARIMAR)


_EXECUTOR = LarimarRewriteExecutor()


def apply_larimar_to_model(model, tok, requests, hparams, **kwargs):
    """`LarimarRewriteExecutor.apply_to_model` of one shared executor."""
    return _EXECUTOR.apply_to_model(model, tok, requests, hparams, **kwargs)
