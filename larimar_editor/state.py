"""The edited state: memory, reference memory and facts. Immutable; an edit makes a new one.

Saved to a folder as ``state.json`` and one safetensors file. The JSON file names the tensor file and is replaced last,
so that a crash at any point of saving leaves the old state or the new one.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.addressing import Reference
from larimar_editor.facts import Fact, FactStore, UnknownFact
from larimar_editor.memory import Memory

FORMAT_VERSION = 1

# A memory row whose keys weigh less than this, squared and summed, is free to take a new prompt.
_UNTOUCHED = 1e-12


@dataclass(frozen=True)
class EditedState:
    """What editing changes.

    Attributes:
        memory: `larimar_editor.memory.Memory`, K rows of C.
        reference: the reference memory; it turns keys into weights.
        store: facts, each with its columns ``value`` ``(C,)`` and ``weight`` ``(K,)`` as they were written, and
            ``scope`` ``(E,)``, the detector's embedding of the prompt.
    """

    memory: Memory
    reference: Reference
    store: FactStore

    def __deepcopy__(self, memo: dict) -> EditedState:
        return self

    def write(self, facts: Sequence[Fact], values: Tensor, keys: Tensor, scope: Tensor) -> EditedState:
        """Write facts; a fact whose prompt is written already replaces it.

        Args:
            facts: N facts with N different prompts.
            values: encodings of prompt and target ``(N, C)``.
            keys: encodings of the prompts that address the memory ``(N, key_size)``.
            scope: the detector's embeddings of the prompts ``(N, E)``.

        Raises:
            ValueError: an encoding that is not finite, with the fact it belongs to.
        """
        for name, rows in (("value", values), ("key", keys), ("scope embedding", scope)):
            finite = torch.isfinite(rows).all(dim=1)
            if not bool(finite.all()):
                raise ValueError(f"the {name} of {facts[int((~finite).nonzero()[0])].text!r} is not finite; nothing was written")
        old = [row for row in map(self.store.row, facts) if row is not None]
        state = self._forget_rows(old) if old else self
        reference = state.reference.extended(keys)
        # Kept in float32 and used from there, so that forgetting removes just what was written.
        weights = reference.weights(keys).float()
        values = values.detach().float()
        return EditedState(
            memory=state.memory.write(values, weights),
            reference=reference,
            store=state.store.extended(facts, {"value": values, "weight": weights, "scope": scope.detach().float()}),
        )

    def forget(self, facts: Sequence[Fact | str | int]) -> EditedState:
        """Forget facts by prompt, id or themselves (eq. (mem_update_seq) with alpha = -1).

        Raises:
            UnknownFact: one that is not written, or named twice; nothing is changed.
        """
        rows = []
        for fact in facts:
            row = self.store.row(fact)
            if row is None or row in rows:
                name = fact.prompt if isinstance(fact, Fact) else fact
                raise UnknownFact(f"cannot forget {name!r}: it is not written. facts() lists what is.")
            rows.append(row)
        return self._forget_rows(rows)

    def _forget_rows(self, rows: list[int]) -> EditedState:
        memory = self.memory.forget(self.store.column("value")[rows], self.store.column("weight")[rows])
        store = self.store.without(rows)
        untouched = memory.key_covariance.diagonal() < _UNTOUCHED
        if not len(store):
            untouched = torch.ones_like(untouched)
        return EditedState(memory, self.reference.released(untouched), store)

    def cleared(self) -> EditedState:
        """With every fact forgotten."""
        empty = FactStore(next_id=self.store.next_id)
        everything = torch.ones_like(self.reference.in_use)
        return EditedState(self.memory.cleared(), self.reference.released(everything), empty)

    def to(self, device: torch.device | str) -> EditedState:
        """The same state on ``device``."""
        return EditedState(self.memory.to(device), self.reference.to(device), self.store.mapped(lambda x: x.to(device)))

    def save(self, folder: str | Path) -> None:
        """Save to ``folder``, made if need be, replacing a state that is there."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows = torch.nonzero(self.store.alive).flatten()
        tensors = {f"memory.{name}": getattr(self.memory, name) for name in ("M", "key_covariance", "inverse", "moments")}
        tensors |= {"reference.rows": self.reference.rows, "reference.in_use": self.reference.in_use}
        if len(self.store):
            tensors |= {f"store.{name}": self.store.column(name)[rows] for name in ("value", "weight", "scope")}
        name = f"state-{uuid.uuid4().hex}.safetensors"
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, folder / name)
        _flush(folder / name)
        description = {
            "format_version": FORMAT_VERSION,
            "tensors": name,
            "memory": {"rows_written": self.memory.rows_written, "updates": self.memory.updates},
            "next_id": self.store.next_id,
            "facts": [asdict(fact) for fact in self.store.facts()],
        }
        _replace_text(folder / "state.json", json.dumps(description, ensure_ascii=False, indent=1))
        for other in folder.glob("state-*.safetensors"):
            if other.name != name:
                other.unlink()

    def restored(self, folder: str | Path) -> EditedState:
        """The state saved in ``folder``, with this state's settings and devices.

        Raises:
            FileNotFoundError: no state there.
            ValueError: a damaged state, one of a newer format, or one whose sizes are not this state's.
        """
        folder = Path(folder)
        description, tensors = _load(folder)
        expected = {"memory.M": self.memory.M.shape, "reference.rows": self.reference.rows.shape}
        for name, shape in expected.items():
            if tensors[name].shape != shape:
                raise ValueError(
                    f"{folder} was saved with {name} of shape {tuple(tensors[name].shape)}, this model has {tuple(shape)}"
                )
        device = self.memory.M.device
        memory = replace(
            self.memory,
            **{key.removeprefix("memory."): value.to(device) for key, value in tensors.items() if key.startswith("memory.")},
            **description["memory"],
        )
        reference = replace(
            self.reference, rows=tensors["reference.rows"].to(device), in_use=tensors["reference.in_use"].to(device)
        )._with_pseudoinverse()
        columns = {k.removeprefix("store."): v.to(device) for k, v in tensors.items() if k.startswith("store.")}
        facts = [Fact(**fact) for fact in description["facts"]]
        return EditedState(memory, reference, FactStore.restored(facts, columns, description["next_id"]))


def _load(folder: Path) -> tuple[dict, dict[str, Tensor]]:
    path = folder / "state.json"
    if not path.exists():
        raise FileNotFoundError(f"no edited state in {folder}: state.json is missing")
    try:
        description = json.loads(path.read_text())
        version = description["format_version"]
        if version > FORMAT_VERSION:
            raise ValueError(f"{path} has format {version}; this version of larimar_editor reads up to {FORMAT_VERSION}")
        tensors = load_file(folder / Path(description["tensors"]).name)
        missing = {"memory.M", "reference.rows", "reference.in_use"} - tensors.keys()
        if missing or not {"facts", "next_id", "memory"} <= description.keys():
            raise KeyError(", ".join(missing) or "facts, next_id, memory")
    except (json.JSONDecodeError, KeyError, SafetensorError, FileNotFoundError) as error:
        raise ValueError(f"the edited state in {folder} is damaged: {error}") from error
    return description, tensors


def _replace_text(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    _flush(temporary)
    os.replace(temporary, path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
