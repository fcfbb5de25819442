"""Edits for the time of a measurement: the model is what it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact


@contextmanager
def preserved(model: LarimarForCausalLM, state: EditedState | None = None) -> Iterator[EditedState]:
    """While it lasts anything may be written or forgotten, from ``state`` on where one is given; yields what
    was before.
    """
    before = model.edited_state
    try:
        if state is not None:
            model.edited_state = state
        yield before
    finally:
        model.edited_state = before


@contextmanager
def written_alone(model: LarimarForCausalLM, requests: Sequence[Mapping | Fact]) -> Iterator[None]:
    """While it lasts nothing is written but ``requests``, in one block; without any, nothing at all."""
    with preserved(model, model.edited_state.cleared()):
        if requests:
            model.write(requests)
        yield


def state_with(model: LarimarForCausalLM, requests: Sequence[Mapping]) -> EditedState:
    """The state with nothing but ``requests``, written in one block; the model's own stays as it is."""
    with written_alone(model, requests):
        return model.edited_state
