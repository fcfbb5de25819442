"""What a pull request to EasyEdit would hold, written into a checkout of its main branch.

All of it imports this package; nothing of Larimar is copied there, and nothing of EasyEdit is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.easyedit.registration import ALG_NAME
from larimar_editor.hparams import find_hparams

PACKAGE = Path("easyeditor/models/larimar")
HPARAMS = "smollm2-135m"

MODULE = '''\
"""Larimar: episodic memory for knowledge editing (Das et al., ICML 2024).

The method lives in the package larimar_editor (pip install larimar_editor), which this only calls: it is
imported when it is first used, so that EasyEdit does not need it.
"""


def _package():
    try:
        import larimar_editor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("LARIMAR needs larimar_editor: pip install larimar_editor") from error
    return larimar_editor


class LarimarHyperParams:
    """Makes the package's hyperparameters, from a YAML file."""

    @classmethod
    def from_hparams(cls, hparams_name_or_path):
        return _package().LarimarHyperParams.from_hparams(hparams_name_or_path)


def apply_larimar_to_model(*args, **kwargs):
    """As every method's: model, tokenizer, requests, hyperparameters."""
    return _package().apply_larimar_to_model(*args, **kwargs)
'''

INIT = "from .larimar_main import LarimarHyperParams, apply_larimar_to_model\n"

EXAMPLE = '''\
"""Larimar: one-shot edits without gradients, and forgetting. pip install larimar_editor"""

from easyeditor import BaseEditor, LarimarHyperParams

hparams = LarimarHyperParams.from_hparams("./hparams/LARIMAR/smollm2-135m.yaml")
editor = BaseEditor.from_hparams(hparams)
metrics, edited_model, _ = editor.edit(
    prompts=["The mother tongue of Danielle Darrieux is"],
    target_new=["English"],
    ground_truth=["French"],
    subject=["Danielle Darrieux"],
    sequential_edit=True,
)
print(metrics)
edited_model.forget("The mother tongue of Danielle Darrieux is")
'''

TEST = '''\
"""LARIMAR among EasyEdit's methods. pip install larimar_editor; python -m pytest test/test_larimar.py"""

import pytest

pytest.importorskip("larimar_editor")

from easyeditor import BaseEditor, LarimarHyperParams


def test_an_edit_is_made_and_forgotten():
    hparams = LarimarHyperParams.from_hparams("./hparams/LARIMAR/smollm2-135m.yaml")
    prompt = "The mother tongue of Danielle Darrieux is"
    metrics, model, _ = BaseEditor.from_hparams(hparams).edit(
        prompts=[prompt],
        target_new=["English"],
        ground_truth=["French"],
        subject=["Danielle Darrieux"],
        sequential_edit=True,
    )
    assert metrics[0]["post"]["rewrite_acc"] == [1.0]
    model.forget(prompt)
    assert model.facts() == []
'''

README_ROW = "| [LARIMAR](https://arxiv.org/abs/2403.11901) | | ✅ | ✅ |  |  |  | ✅ | ✅ |"


@dataclass(frozen=True)
class Line:
    """A line that is put into a file of EasyEdit's.

    Attributes:
        path: of the file, in the checkout.
        text: the line.
        belongs: whether a line of the file is what the new one goes after; the last such counts.
    """

    path: str
    text: str
    belongs: Callable[[str], bool]

    def into(self, text: str) -> str:
        """The file's text with the line in it.

        Raises:
            ValueError: nowhere to put it.
        """
        lines = text.splitlines()
        if self.text in lines:
            return text
        places = [number for number, line in enumerate(lines) if self.belongs(line)]
        if not places:
            raise ValueError(f"{self.path} has no place for {self.text!r}: is this EasyEdit's main branch?")
        lines.insert(places[-1] + 1, self.text)
        return "\n".join(lines) + "\n"


LINES = (
    Line("easyeditor/models/__init__.py", "from .larimar import *", lambda line: line.startswith("from .")),
    Line(
        "easyeditor/util/alg_dict.py",
        "from ..models.larimar import LarimarHyperParams, apply_larimar_to_model",
        lambda line: line.startswith("from ..models."),
    ),
    Line(
        "easyeditor/util/alg_dict.py",
        f"    '{ALG_NAME}': apply_larimar_to_model,",
        lambda line: line.startswith("ALG_DICT"),
    ),
    Line("README.md", README_ROW, lambda line: line.startswith("| [AlphaEdit]")),
)


def write_proposal(checkout: Path) -> list[str]:
    """Write it; files that have it already stay as they are.

    Args:
        checkout: of EasyEdit's main branch.

    Returns:
        the files that were written, by their names in the checkout.

    Raises:
        FileNotFoundError: no EasyEdit there.
        ValueError: a file has no place for its line; nothing is written.
    """
    if missing := [line.path for line in LINES if not (checkout / line.path).is_file()]:
        raise FileNotFoundError(f"no checkout of EasyEdit in {checkout}: it lacks {missing[0]}")
    contents = {
        str(PACKAGE / "__init__.py"): INIT,
        str(PACKAGE / "larimar_main.py"): MODULE,
        f"hparams/{ALG_NAME}/{HPARAMS}.yaml": find_hparams(f"{ALG_NAME}/{HPARAMS}").read_text("utf-8"),
        "examples/run_larimar.py": EXAMPLE,
        "test/test_larimar.py": TEST,
    }
    for line in LINES:
        text = contents.get(line.path) or (checkout / line.path).read_text(encoding="utf-8")
        contents[line.path] = line.into(text)
    written = []
    for name, text in contents.items():
        path = checkout / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(name)
    return written
