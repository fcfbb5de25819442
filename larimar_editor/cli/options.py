"""What several commands take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
import yaml

from larimar_editor.model.settings import Dtype
from larimar_editor.pretrained.embedded import DECODER
from larimar_editor.utils.settings import number

__all__ = [
    "DECODER",
    "AskedOption",
    "CheckpointOption",
    "CounterFactOption",
    "DecoderOption",
    "DetectorOption",
    "DeviceOption",
    "DtypeOption",
    "HparamsOption",
    "MethodDeviceOption",
    "MethodsDeviceOption",
    "MethodsOption",
    "ModelOption",
    "PlainTextOption",
    "SetOption",
    "TextOption",
    "UntimedOption",
    "ZsreOption",
    "device_named",
    "methods_devices",
    "names_in",
    "settings_of",
]

DtypeOption = Annotated[Dtype, typer.Option(help="Decoder dtype; auto is bfloat16 where that is fast.")]


def device_named(value: str | None) -> str | None:
    """The device's name as torch has it; EasyEdit's users say 0. None of None."""
    if value is None:
        return None
    name, index = _known_device(value)
    if name.startswith("cuda"):
        import torch

        if index >= (count := torch.cuda.device_count()):
            raise typer.BadParameter(f"no device {value!r}: torch finds {count} GPUs here")
    return name


def _known_device(value: str) -> tuple[str, int]:
    """The device's name as torch has it and its index, whether it is here or not."""
    name = f"cuda:{value}" if value.isdigit() else value
    if name == "cpu":
        return name, 0
    import torch

    try:
        return name, torch.device(name).index or 0
    except RuntimeError as error:
        raise typer.BadParameter(f"no device {value!r}: cpu, cuda or cuda:N") from error


DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:N or N for a CUDA device.", callback=device_named)
]
DecoderOption = Annotated[
    str, typer.Option(help="Decoder: a Hugging Face name, a folder, or an embedded model.")
]
CheckpointOption = Annotated[
    Optional[str],
    typer.Option(
        help="Larimar checkpoint, a folder or the name of one that ships; by default the YAML file's, where "
        "the command has one, or the one that ships."
    ),
]
TextOption = Annotated[
    Optional[Path], typer.Option(help="UTF-8 text, one sentence a line. By default the sentences that ship.")
]
CounterFactOption = Annotated[
    Optional[Path], typer.Option(help="CounterFact. By default the project's own edits.")
]
ZsreOption = Annotated[Optional[Path], typer.Option(help="ZsRE. By default the project's own edits.")]
PlainTextOption = Annotated[
    Optional[Path], typer.Option(help="Plain text for perplexity. By default the sentences that ship.")
]
AskedOption = Annotated[
    Optional[list[Path]],
    typer.Option(
        "--data",
        help="Further data of the tables scope and knowedit: KnowEdit, SimpleQuestions or edits; may be "
        "given again.",
    ),
]
HparamsOption = Annotated[
    Optional[Path], typer.Option(help="Folder with METHOD/MODEL.yaml; by default the files that ship.")
]
ModelOption = Annotated[str, typer.Option(help="Which MODEL.yaml.")]
MethodsOption = Annotated[
    Optional[str],
    typer.Option(
        help="Methods to run, comma-separated, as in LARIMAR,ROME,memit. By default all that can run. "
        "Those whose cases are finished have their rows either way."
    ),
]
MethodDeviceOption = Annotated[
    Optional[str], typer.Option(help="cpu or a CUDA index; by default the hparams file's.")
]
MethodsDeviceOption = Annotated[
    Optional[str],
    typer.Option(
        "--methods-device",
        help="cpu, cuda or cuda:N for EasyEdit's methods, where it is another than --device; of several, as "
        "in cuda,cpu, the first on which a method's cases are finished, or else the first that is here.",
    ),
]
UntimedOption = Annotated[
    bool,
    typer.Option(
        "--untimed", help="Other runs share the machine: note no seconds of EasyEdit's methods' edits."
    ),
]
SetOption = Annotated[
    Optional[list[str]],
    typer.Option("--set", help="name=value in place of the file's or the checkpoint's; may be given again."),
]


DetectorOption = Annotated[
    str,
    typer.Option(
        help="Checkpoint whose external scope detector it gets, by folder or name; none: the sentence "
        "encoder as it is. A detector knows nothing of the decoder."
    ),
]


def settings_of(pairs: Sequence[str] | None, option: str = "--set") -> dict[str, Any]:
    """What ``--set``, or another option of the kind, was given, values read as YAML.

    Raises:
        typer.BadParameter: no name=value, or a value that is no YAML.
    """
    parted = [pair.partition("=") for pair in pairs or ()]
    if bad := [name for name, equals, _ in parted if not equals]:
        raise typer.BadParameter(f"{option} takes name=value, got {bad[0]!r}")
    try:
        return {name: number(yaml.safe_load(value)) for name, _, value in parted}
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def methods_devices(devices: str | None) -> list[str]:
    """Devices, comma-separated, as EasyEdit's methods take them: cpu or a CUDA index; none of None. They need
    not be here: cases that were finished on another machine count.

    Raises:
        typer.BadParameter: a name that no device has.
    """
    names = [_known_device(each)[0] for each in names_in(devices) or ()]
    return [name.removeprefix("cuda:").replace("cuda", "0") for name in names]


def names_in(text: str | None) -> list[str] | None:
    """Those of a comma-separated list; None where none is given."""
    return None if text is None else [name.strip() for name in text.split(",")]
