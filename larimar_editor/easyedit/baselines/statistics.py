"""MEMIT's key statistics from local text, in the files EasyEdit looks for.

EasyEdit computes them from a Wikipedia download. Its own function runs here, with its own file names, over a
text file.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import datasets

from larimar_editor.data.texts import SENTENCES


def compute_key_statistics(model, tok, hparams, text: str | Path = SENTENCES) -> None:
    """Second moments of the keys of every layer that ``hparams`` edits; what exists is not computed again.

    Args:
        model, tok: as EasyEdit's editor holds them.
        hparams: EasyEdit's, of MEMIT or another method that uses ``layer_stats``.
        text: UTF-8, one sentence a line.

    Raises:
        FileNotFoundError: no such text.
    """
    text = Path(text)
    if not text.exists():
        raise FileNotFoundError(f"no text file {text}")
    module: Any = importlib.import_module("easyeditor.models.rome.layer_stats")
    original = module.load_dataset
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    local = datasets.Dataset.from_dict({"text": lines})
    module.load_dataset = lambda *args, **kwargs: {"train": local}
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
        module.load_dataset = original
