"""`LarimarHyperParams`: the YAML files of hparams/LARIMAR, with EasyEdit's keys where EasyEdit has one."""

from __future__ import annotations

import importlib
import json
import warnings
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from larimar_editor.checkpoints import CHECKPOINTS, DETECTOR, shipped
from larimar_editor.model.settings import (
    DETECTOR_SETTINGS,
    FIT_COPYING,
    FIT_KEY_GAIN,
    FIT_VALUE_GAIN,
    LarimarSettings,
)
from larimar_editor.utils.files import find_shipped, load_mapping, shipped_folders
from larimar_editor.utils.settings import build, check, described, setting

_TYPES = get_type_hints(LarimarSettings)
_EDITABLE = [each for each in fields(LarimarSettings) if each.metadata.get("edit")]
CHECKPOINT_SETTINGS = tuple(each.name for each in _EDITABLE)

if TYPE_CHECKING:

    class _Overrides:
        """The checkpoint's settings that a file may change; None leaves the checkpoint's own."""
else:
    _Overrides = make_dataclass(
        "_Overrides",
        [
            (each.name, _TYPES[each.name] | None, field(default=None, metadata=each.metadata))
            for each in _EDITABLE
        ],
        kw_only=True,
    )


@dataclass
class LarimarHyperParams(_Overrides):
    """Hyperparameters of ``alg_name: "LARIMAR"``: EasyEdit's own keys, and the settings of a checkpoint that
    are to be changed.

    The latter are those of `larimar_editor.model.settings.LarimarSettings` that are marked ``edit``; None,
    the default, is the checkpoint's own value.

    Raises:
        ValueError: a value of another type or out of its range, with its name.
    """

    alg_name: str = setting(help="LARIMAR")
    model_name: str = setting(
        help="the decoder: a Hugging Face name, a folder, or an embedded model, which needs no model hub"
    )
    device: int | str = setting("cpu", "cpu, or the index of a CUDA device", at_least=0)
    model_parallel: bool = setting(False, "spread the decoder over all devices")
    fp16: bool = setting(False, "load the decoder in half precision; the memory stays in float32 and float64")
    larimar_checkpoint: str | None = setting(
        None, "folder or name of a Larimar checkpoint; null: the one that ships for the decoder"
    )
    max_length: int = setting(40, "tokens that EasyEdit's evaluation keeps of a prompt", at_least=1)
    batch_size: int = setting(1, "requests per batch_edit step; EasyEdit's single edits want 1", at_least=1)
    evaluation_type: Literal["LLM-judge", "generate-text"] | None = setting(
        None, "EasyEdit's: how an answer is scored; null: by token accuracy, teacher-forced"
    )
    api_key: str | None = setting(None, "EasyEdit's: of the judge of LLM-judge; null: exact match")
    use_chat_template: bool | None = setting(
        None, "EasyEdit's: put the decoder's chat template around a prompt"
    )
    seed: int | None = setting(None, "EasyEdit's: random seed of a script of EasyEdit's")
    results_dir: str | None = setting(None, "EasyEdit's: folder for what a script of EasyEdit's writes")
    save_path: str | None = setting(
        None, "EasyEdit's, of WISE alone; what is written here is saved by `save_state`"
    )
    quantization_bit: int | None = setting(None, "EasyEdit's, of QLoRA alone: null here")
    double_quant: bool | None = setting(None, "EasyEdit's, of QLoRA alone: null here")
    quant_type: str | None = setting(None, "EasyEdit's, of QLoRA alone: null here")
    scope_sees_target: bool = setting(
        False, "show the detector prompt and candidate answer, as published numbers did; not a fair test"
    )

    def __post_init__(self):
        if self.save_path is not None:
            warnings.warn(
                "save_path is of EasyEdit's WISE alone, and nothing is saved there: use `save_state` of the "
                "edited model",
                stacklevel=3,
            )
        if self.alg_name != "LARIMAR":
            raise ValueError(f"alg_name must be LARIMAR, got {self.alg_name!r}")
        if isinstance(self.device, str) and self.device.isdecimal():
            self.device = int(self.device)
        check(self)
        if isinstance(self.device, str) and self.device != "cpu":
            _check_device(self.device)
        if not self.model_name:
            raise ValueError("model_name must not be empty")
        for name in ("quantization_bit", "double_quant", "quant_type"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} is of EasyEdit's QLoRA alone, and would do nothing here: leave it out. For a "
                    "decoder in 8 or 4 bits see docs/your-own-decoder.md"
                )

    def config_overrides(self) -> dict[str, Any]:
        """Settings of the checkpoint that these hyperparameters change."""
        return {each.name: value for each in _EDITABLE if (value := getattr(self, each.name)) is not None}

    @classmethod
    def from_hparams(cls, hparams_name_or_path: str | Path) -> LarimarHyperParams:
        """From a YAML file, with or without its ending, or a JSON file.

        Args:
            hparams_name_or_path: a path, or the name of a file that ships, such as ``LARIMAR/smollm2-135m``.

        Raises:
            FileNotFoundError: no such file; the message names those that ship.
            ValueError: an unknown or missing key, or a value out of its range; the message names file and
                key.
        """
        path = find_hparams(hparams_name_or_path)
        if path.suffix == ".json":
            return cls.from_json(path)
        return build(cls, load_mapping(path), str(path))

    @classmethod
    def from_json(cls, fpath: str | Path) -> LarimarHyperParams:
        """From a JSON file; errors as `from_hparams`."""
        try:
            values = json.loads(Path(fpath).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{fpath} is not JSON: {error}") from error
        return build(cls, values, str(fpath))

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as a YAML file holds them."""
        return asdict(self)

    def to_yaml(self, title: str) -> str:
        """A YAML file of every key with its meaning.

        Keys that are left to the checkpoint are commented out, and show its value where it ships, else that
        of what `larimar-editor fit` makes.

        Args:
            title: first line.
        """
        shipped_values = self._of_shipped_checkpoint()
        of_checkpoint = {each.name: each.default for each in _EDITABLE}
        of_checkpoint |= made_by_fit() if shipped_values is None else shipped_values
        whose = "its own" if shipped_values is not None else "that of a checkpoint as `fit` makes it"
        own = ["# EasyEdit's keys."]
        changed = [
            f"# Settings of the checkpoint. What is commented out is {whose}; take out the # to change it."
        ]
        for name, wanted, default, meaning in described(type(self)):
            value = getattr(self, name)
            left = value is None and (default is None or name in of_checkpoint)
            line = f"{'# ' * left}{name}: {json.dumps(of_checkpoint.get(name) if left else value)}"
            in_range = f" ({wanted})" if "number" in wanted or "one of" in wanted else ""
            (changed if name in of_checkpoint else own).append(f"{line:<34}  # {meaning}{in_range}")
        return "\n".join([f"# {title}", "", *own, "", *changed]) + "\n"

    def _of_shipped_checkpoint(self) -> dict[str, Any] | None:
        given = self.larimar_checkpoint
        try:
            values = _config(shipped(self.model_name) if given is None else CHECKPOINTS[given])
        except (FileNotFoundError, KeyError):
            return None
        return {name: values[name] for name in CHECKPOINT_SETTINGS if name in values}


def _check_device(name: str) -> None:
    torch = importlib.import_module("torch")  # which is long in coming, for files that name no such device
    try:
        torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device must be cpu or the index of a CUDA device, got {name!r}") from error


def made_by_fit() -> dict[str, Any]:
    """Settings of a checkpoint that ``larimar-editor fit`` makes which are not the declared defaults: the
    gains, and those of the shipped scope detector.
    """
    detector = _config(CHECKPOINTS[DETECTOR])
    made = {"key_gain": FIT_KEY_GAIN, "value_gain": FIT_VALUE_GAIN, **FIT_COPYING}
    made |= {name: detector[name] for name in DETECTOR_SETTINGS}
    return {
        each.name: made[each.name] for each in _EDITABLE if made.get(each.name, each.default) != each.default
    }


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def find_hparams(name_or_path: str | Path) -> Path:
    """The file of that path or, where there is none, of that name among those that ship; the ending may be
    left out.

    Raises:
        FileNotFoundError: neither; the message names Larimar's that ship.
    """
    given = Path(name_or_path)
    if given.suffix not in (".yaml", ".yml", ".json"):
        given = given.with_name(given.name + ".yaml")
    if (found := find_shipped(given, "hparams")) is not None:
        return found
    files = (path for folder in shipped_folders("hparams") for path in folder.glob("LARIMAR/*.yaml"))
    ships = sorted({f"{path.parent.name}/{path.stem}" for path in files})
    raise FileNotFoundError(f"no hparams file {given}; there ship {', '.join(ships)}")
