"""MEMIT's key statistics from local text, in the files EasyEdit looks for.

EasyEdit computes them from a Wikipedia download. Its own function runs here, with its own file names, over a
text file.
"""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

import datasets

from larimar_editor.data.texts import SENTENCES


def compute_key_statistics(model, tok, hparams, text: str | Path | None = None) -> list[int]:
    """Second moments of the keys of every layer that ``hparams`` edits; what exists is not computed again.
    Beside each file that is computed stands the digest of its text.

    Args:
        model, tok: as EasyEdit's editor holds them.
        hparams: EasyEdit's, of MEMIT or another method that uses ``layer_stats``.
        text: UTF-8, one sentence a line; what exists has to be of it. None takes what exists, whatever it is
            of, and the sentences that ship for the rest.

    Returns:
        the layers whose statistics did not exist.

    Raises:
        FileNotFoundError: no such text.
        ValueError: a file is there that is of another text than the one that is given. One without a digest
            counts as of the sentences that ship.
    """
    file = Path(text or SENTENCES)
    if not file.exists():
        raise FileNotFoundError(f"no text file {file}")
    module: Any = importlib.import_module("easyeditor.models.rome.layer_stats")
    load_dataset, tally = module.load_dataset, module.tally
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    local = datasets.Dataset.from_dict({"text": lines})
    layers: list[int] = []

    def noted(stat, data, *, cache: Path, **options):
        note = cache.with_suffix(".text")
        if not cache.exists():
            layers.append(layer)
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(_digest(file), encoding="utf-8")
        elif text is not None:
            of = note.read_text(encoding="utf-8") if note.exists() else _digest(SENTENCES)
            if of != _digest(file):
                raise ValueError(f"{cache} is there, and of another text than {file}: remove it first")
        return tally(stat, data, cache=cache, **options)

    module.load_dataset = lambda *args, **kwargs: {"train": local}
    module.tally = noted
    Path(hparams.stats_dir).mkdir(parents=True, exist_ok=True)
    try:
        for layer in hparams.layers:
            module.layer_stats(
                model,
                tok,
                hparams.rewrite_module_tmp.format(layer),
                hparams.stats_dir,
                hparams.mom2_dataset,
                to_collect=["mom2"],
                sample_size=hparams.mom2_n_samples,
                precision=hparams.mom2_dtype,
                hparams=hparams,
            )
    finally:
        module.load_dataset, module.tally = load_dataset, tally
    return layers


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
