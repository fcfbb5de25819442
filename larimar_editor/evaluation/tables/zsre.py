"""Single edits on ZsRE (paper, tab:zsre and tab:ke_gen_zSRE): share of the target's tokens that are the most
probable.
"""

from __future__ import annotations

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Evaluation
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.single_edits import the_edit_alone
from larimar_editor.evaluation.tables.counterfact import (
    ACCURACY,
    PORTABILITY,
    UNCHANGED,
    nothing,
    single_edit_condition,
    with_rephrasings,
)


def _conditions(context: Context) -> list[Condition]:
    edits = context.zsre_edits
    result = [single_edit_condition("base model", context, edits, nothing)]
    result.append(single_edit_condition("Larimar", context, edits, the_edit_alone))
    for scope, name in ((None, "Larimar"), ("none", "Larimar, no scope")):
        settings = {} if scope is None else {"scope": scope}
        for count in (1, 2):
            label = f"{name} + {count} rephrasing{'s' * (count > 1)}"
            result.append(single_edit_condition(label, context, edits, with_rephrasings(count), **settings))
    return result


EVALUATION = Evaluation(
    "zsre",
    "Single edits: exact match of the target's tokens, teacher-forced",
    _conditions,
    (*ACCURACY, UNCHANGED, PORTABILITY),
    note="Further wordings in memory are the data's where there are any, else the prompt after an opener.",
    reads=("zsre",),
)
