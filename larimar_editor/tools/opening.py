"""A Larimar with its facts, as tools ask for it: by names. One without is loaded by
`larimar_editor.model.loading`, and one that is to be trained opened by `larimar_editor.training.opening`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_larimar
from larimar_editor.state.lines import facts_in, write_in_blocks


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
    if path is None:
        return model
    if path.suffix not in (".json", ".jsonl"):
        model.open_state(path, read_only=True)
        return model
    write_in_blocks(model, facts_in(path))
    return model


@contextmanager
def closing_state(model: LarimarForCausalLM) -> Iterator[None]:
    """For as long as a tool runs, in the main thread: SIGTERM ends it as Ctrl-C does, and at the end the
    state's file is closed, if one is open, so that everything is in the file alone then.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        model.close_state(keep=False)
        signal.signal(signal.SIGTERM, before)
