"""A Larimar with its facts, as tools ask for it: by names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness.single_edits import the_edit_alone
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_larimar
from larimar_editor.state.fact import Fact
from larimar_editor.state.lines import facts_in_lines


def open_larimar(
    checkpoint: str | Path | None = None,
    facts: str | Path | None = None,
    dtype: str = "auto",
    device: str = "cpu",
    **settings,
) -> LarimarForCausalLM:
    """A checkpoint with facts in its memory.

    Args:
        checkpoint: a folder, or the name of one that ships; the one that ships for the embedded decoder
            when None.
        facts: a state's file, which is read as it is now and not written to; JSON lines (``.jsonl``) as
            `larimar-editor facts export` writes them; or a file of edits (``.json``). None: no facts.
        dtype: auto, float32, bfloat16 or float16.
        device: cpu, cuda or cuda:N.
        settings: of `LarimarSettings`.

    Raises:
        FileNotFoundError: no such checkpoint or facts.
        ValueError: a file that holds no facts, or facts of another checkpoint.
    """
    path = None if facts is None else Path(facts)
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"no facts in {path}")
    model, _ = load_larimar(checkpoint, dtype, settings, device)
    if model.tokenizer.pad_token is None:  # GPT-2, Llama 3: batches are padded here
        model.tokenizer.pad_token = model.tokenizer.eos_token
    if path is None:
        return model
    if path.suffix not in (".json", ".jsonl"):
        model.open_state(path, read_only=True)
        return model
    if path.suffix == ".jsonl":
        write_in_blocks(model, facts_in_lines(path))
    else:
        write_in_blocks(model, [request for edit in load_edits(path) for request in the_edit_alone(edit)])
    return model


def write_in_blocks(
    model: LarimarForCausalLM,
    facts: Sequence[Mapping | Fact],
    block: int = 256,
    wrote: Callable[[int], object] = lambda count: None,
) -> int:
    """Write many facts, so many at once; how many there were.

    Args:
        model: what they are written to.
        facts: as `LarimarForCausalLM.write` takes them.
        block: facts that are written together.
        wrote: told how many, after each block.
    """
    for start in range(0, len(facts), block):
        part = facts[start : start + block]
        model.write(part)
        wrote(len(part))
    return len(facts)
