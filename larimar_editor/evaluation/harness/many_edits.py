"""Many facts in memory at once: written in one block, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading

_ASKED = ("rewrite", "rephrase", "locality")


def last_of_each_prompt(edits: Sequence[Edit]) -> list[Edit]:
    """Of several edits of one prompt, the last: it is the one that holds."""
    return list({edit.prompt: edit for edit in edits}.values())


def write_all(
    model: LarimarForCausalLM, edits: Sequence[Edit], sequentially: bool, progress: bool = True
) -> None:
    """Write every edit: in one call, or each in a call of its own."""
    requests = [edit.request for edit in edits]
    for block in tqdm(
        [[each] for each in requests] if sequentially else [requests],
        desc="writing",
        unit="write",
        disable=not progress,
    ):
        model.write(block)


def score_many_edits(
    model: LarimarForCausalLM,
    edits: Sequence[Edit],
    sequentially: bool = False,
    progress: bool = True,
    batch: int = 32,
    only: Sequence[Edit] | None = None,
    asked: Callable[[], None] = lambda: None,
) -> list[dict]:
    """Write all edits, then ask for each.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases. Of several with the same prompt the last one holds, and only it is scored.
        sequentially: one after the other instead of in one block.
        batch: prompts per pass of the decoder.
        only: those of ``edits`` that are asked for; all when None.
        asked: called while everything is written, after the scores.

    Returns:
        one record per case that is asked for: ``case_id``, ``rewrite`` and, where there is one, ``rephrase``:
        accuracy of the target's tokens, 0 to 1, of the written prompt and of the first rephrasing; and
        ``locality``: share of the first locality prompt's true answer's tokens for which the model says what
        it says with nothing written.
    """
    unique = last_of_each_prompt(edits)
    wanted = unique if only is None else list(only)
    records = []
    with preserved(model, model.edited_state.cleared()):
        write_all(model, edits if sequentially else unique, sequentially, progress)
        for start in tqdm(range(0, len(wanted), batch), desc="asking", unit="pass", disable=not progress):
            records += _ask(model, wanted[start : start + batch])
        asked()
    return records


def asked_of(edit: Edit) -> dict[str, tuple[str, str]]:
    """Prompt and answer of what is asked: the prompt, the first rephrasing and the first locality prompt,
    where there are such.
    """
    asked = [("rewrite", edit.prompt, edit.target_new)]
    asked += [("rephrase", prompt, edit.target_new) for prompt in edit.rephrase_prompts[:1]]
    asked += [("locality", *pair) for pair in zip(edit.locality_prompts[:1], edit.locality_ground_truth)]
    return {name: (prompt, target) for name, prompt, target in asked}


def _ask(model: LarimarForCausalLM, edits: Sequence[Edit]) -> list[dict]:
    records: dict[str, dict] = {edit.prompt: {"case_id": edit.case_id} for edit in edits}
    for name in _ASKED:
        part = [(edit.prompt, asked_of(edit)[name]) for edit in edits if name in asked_of(edit)]
        if not part:
            continue
        pairs = [pair for _, pair in part]
        scores = target_scores(model, pairs)
        values = [score.accuracy for score in scores]
        if name == "locality":
            plain = target_scores(model, pairs, Reading.nothing(len(pairs), model.config.latent_size))
            values = [score.as_before(base) for score, base in zip(scores, plain)]
        for (prompt, _), value in zip(part, values):
            records[prompt][name] = value
    return list(records.values())
