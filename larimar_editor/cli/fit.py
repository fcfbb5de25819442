"""``larimar-editor fit``: a checkpoint for a decoder, in closed form."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from larimar_editor.checkpoints import DETECTOR
from larimar_editor.cli.options import (
    DECODER,
    DecoderOption,
    DetectorOption,
    DeviceOption,
    DtypeOption,
    TextOption,
)
from larimar_editor.model.settings import FIT_KEY_GAIN, FIT_VALUE_GAIN

FactsOption = Annotated[
    Optional[Path],
    typer.Option(
        help="JSON lines of `larimar-editor data answers`, of which as many are used as sentences: codes "
        "that have seen rare names keep them apart."
    ),
]
SentencesOption = Annotated[int, typer.Option(help="Sentences to use.", min=1)]


def fit(
    text: TextOption = None,
    model: DecoderOption = DECODER,
    out: Annotated[Path, typer.Option(help="Checkpoint folder to write; its weights are float16.")] = Path(
        "checkpoints/larimar"
    ),
    sentences: SentencesOption = 6000,
    slots: Annotated[
        int, typer.Option(help="P: memory slots, the last tokens of a fact that are kept.", min=1)
    ] = 4,
    code_size: Annotated[int, typer.Option(help="C / P: numbers per slot.", min=1)] = 768,
    key_gain: Annotated[
        float, typer.Option(help="Factor on a memory key's deviation from the mean key.", min=0)
    ] = FIT_KEY_GAIN,
    value_gain: Annotated[float, typer.Option(help="The same for values.", min=0)] = FIT_VALUE_GAIN,
    batch_size: Annotated[int, typer.Option(help="Sentences per decoder pass.", min=1)] = 64,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    detector: DetectorOption = DETECTOR,
    scope_threshold: Annotated[
        Optional[float], typer.Option(help="Threshold of the external scope detector; see `calibrate`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Choice of sentences and the randomised PCA.")] = 0,
    facts: FactsOption = None,
) -> None:
    """Make a Larimar checkpoint for a decoder in closed form: no gradient, about two minutes for a small
    decoder.
    """
    import torch

    from larimar_editor.data.texts import SENTENCES, sentences_and_facts
    from larimar_editor.model.closed_form import fit as closed_form
    from larimar_editor.model.loading import load_decoder

    start = time.perf_counter()
    chosen = sentences_and_facts(text or SENTENCES, facts, sentences, seed)
    decoder, tokenizer = load_decoder(model, dtype, device)
    settings: dict[str, Any] = {} if scope_threshold is None else {"scope_threshold": scope_threshold}
    larimar = closed_form(
        decoder,
        tokenizer,
        chosen,
        name=model,
        code_size=code_size,
        memory_slots=slots,
        key_gain=key_gain,
        value_gain=value_gain,
        batch_size=batch_size,
        seed=seed,
        detector=None if detector == "none" else detector,
        **settings,
    )
    larimar.save_pretrained(out, dtype=torch.float16)
    _report(larimar, out, len(chosen), start)


def refit(
    checkpoint: Annotated[str, typer.Argument(help="A trained checkpoint: a folder, or a name that ships.")],
    text: TextOption = None,
    facts: FactsOption = None,
    out: Annotated[Path, typer.Option(help="Checkpoint folder to write; its weights are float16.")] = Path(
        "checkpoints/refitted"
    ),
    sentences: SentencesOption = 6000,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    seed: Annotated[int, typer.Option(help="Choice of sentences and the randomised PCA.")] = 0,
) -> None:
    """Make the encoder of a trained checkpoint anew, and move its trained W_M onto the new codes; to be
    trained on from there (`start: trained`).
    """
    import torch

    from larimar_editor.data.texts import SENTENCES, sentences_and_facts
    from larimar_editor.model.closed_form import refit as made_anew
    from larimar_editor.model.loading import load_larimar

    start = time.perf_counter()
    chosen = sentences_and_facts(text or SENTENCES, facts, sentences, seed)
    larimar, _ = load_larimar(checkpoint, dtype, {}, device)
    made_anew(larimar, chosen, seed=seed)
    larimar.save_pretrained(out, dtype=torch.float16)
    _report(larimar, out, len(chosen), start)


def _report(larimar, out: Path, texts: int, start: float) -> None:
    report = {
        "checkpoint": str(out),
        "sentences": texts,
        "latent_size": larimar.config.latent_size,
        "explained_variance": larimar.config.explained_variance,
        "seconds": round(time.perf_counter() - start, 1),
    }
    typer.echo(json.dumps(report))
