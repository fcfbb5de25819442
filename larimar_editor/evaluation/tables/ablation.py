"""What scope and memory do (paper, tab:counter_ablate_para, tab:ablation_gpt2xl, tab:ablation_gptj,
tab:counterfact_abl).
"""

from __future__ import annotations

from importlib.util import find_spec

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Evaluation
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.tables.counterfact import (
    S_AND_M,
    nothing,
    single_edit_condition,
    with_rephrasings,
)


def _conditions(context: Context) -> list[Condition]:
    edits = context.counterfact_edits
    result = [
        single_edit_condition("Larimar", context, edits),
        single_edit_condition("first stage of the detector alone", context, edits, scope_candidates=0),
        single_edit_condition("addressed by the query's own key", context, edits, addressed_by="query"),
        single_edit_condition("no scope", context, edits, scope="none"),
        single_edit_condition("no scope + 2 rephrasings", context, edits, with_rephrasings(2), scope="none"),
        single_edit_condition("no memory", context, edits, nothing),
        single_edit_condition("P slots whatever the answer", context, edits, answer_tokens=0),
        single_edit_condition("nothing copied", context, edits, copying=0.0),
        single_edit_condition("addressed by latents", context, edits, key_encoding="latent"),
        single_edit_condition(
            "no scope, addressed by latents", context, edits, key_encoding="latent", scope="none"
        ),
    ]
    if "weight" in context.larimar().detectors.weights:
        result.append(single_edit_condition("internal detector", context, edits, scope="internal"))
    if find_spec("torchao") is not None:
        for bits in (8, 4):
            named = f"decoder in {bits} bits"
            result += [
                single_edit_condition(named, context, edits, bits=bits),
                single_edit_condition(f"{named}, no memory", context, edits, nothing, bits=bits),
            ]
    return result


EVALUATION = Evaluation(
    "ablation",
    "Single edits with and without scope, memory, and either detector",
    _conditions,
    S_AND_M,
    note="The internal detector has a row where the checkpoint has its weights (`larimar-editor calibrate "
    "--detector internal --out FOLDER`), and decoders in 8 and 4 bits where torchao is installed, which "
    "quantises them; the checkpoint was trained for the decoder as it is. Training configurations are rows "
    "of their own: run this with another `--checkpoint`.",
)
