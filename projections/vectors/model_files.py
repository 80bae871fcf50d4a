"""The packaged model: its files, where they are, and whether they are intact. `tools/minilm` builds the package.

Imports nothing heavy.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from projections.vectors.embedder import ModelUnavailable

# Change the suffix whenever the arithmetic of a graph changes: it names the vectors, in caches and in indexes.
DEFAULT_MODEL = "all-MiniLM-L6-v2:int8"
FALLBACK_MODEL = "all-MiniLM-L6-v2:int8-weights"
"""The same int8 weights, multiplied in float32: slower, and exact on every processor."""
MODEL_PACKAGE = "mnemolog_minilm"
MULTILINGUAL_PACKAGE = "mnemolog_e5"
PACKAGED = {"default": MODEL_PACKAGE, "multilingual": MULTILINGUAL_PACKAGE}
"""The packages of the embedders that have one; `multilingual` uses the static vectors of the default one as well."""
MODEL_FILE = "model.int8.onnx"
FALLBACK_FILE = "model.int8-weights.onnx"
"""A graph of a few hundred kilobytes, whose large weights are in MODEL_FILE."""
REFERENCE_FILE = "reference.json"
"""Texts and their vectors by the original float32 weights."""
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "manifest.json"
STATIC_WEIGHTS_FILE = "static/model.safetensors"
STATIC_TOKENIZER_FILE = "static/tokenizer.json"


@dataclass(frozen=True)
class ModelManifest:
    """The files of a model, and the name of each graph's vectors."""

    models: dict[str, str]  # file of a graph -> name of its vectors; the first is the default
    dimensions: int
    max_tokens: int
    files: dict[str, str]  # name -> SHA-256 in hexadecimal
    source_sha256: str
    prefixes: tuple[str, str] = ("", "")
    """The model expects one before each text, the other before each question."""

    @property
    def graph(self) -> str:
        """The name of the file with the default graph."""
        return next(iter(self.models))


def packaged_model(package: str = MODEL_PACKAGE) -> Path:
    """The folder of a packaged model. Raises ModelUnavailable if the package is not installed."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise ModelUnavailable(name, f"the package is not installed: pip install {name}")
    return Path(spec.origin).parent


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


def verify(directory: Path) -> ModelManifest:
    """The manifest. Raises ModelUnavailable unless every file that it names has the content that it states."""
    manifest = read_manifest(directory)
    for name in dict.fromkeys([*manifest.models, TOKENIZER_FILE, *manifest.files]):
        try:
            actual = sha256_of(directory / name)
        except OSError as error:
            raise ModelUnavailable(str(directory), str(error)) from error
        if manifest.files.get(name) != actual:
            raise ModelUnavailable(str(directory), f"{name} is damaged: its SHA-256 is {actual}")
    return manifest
