"""Makes the int8 MiniLM: `python -m projections.embedding.export [directory]`. Imports torch, so run it as a process.

Guarantee: the directory holds a whole, checked model or is as it was before. Several processes may export at once: one
works, the others wait for it and find its model.
"""

import argparse
import fcntl
import json
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from projections.embedding.bert_graph import write_int8
from projections.embedding.distill import distill
from projections.embedding.embedder import Embedder, ExportTooInaccurate
from projections.embedding.factory import EXPORTER, REQUIRED_MEAN_COSINE, TOO_INACCURATE
from projections.embedding.model_files import (
    DEFAULT_MODEL,
    MANIFEST_FILE,
    MODEL_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    default_directory,
    is_current,
    read_manifest,
    sha256_of,
)
from projections.embedding.onnx import OnnxEmbedder
from projections.embedding.sample import sample_texts
from projections.embedding.sentence_transformer import SentenceTransformerEmbedder, packaged_model


def export(directory: Path, required_mean_cosine: float = REQUIRED_MEAN_COSINE) -> ModelManifest:
    """The manifest of the model that is in the directory afterwards; does nothing when a whole one is there.

    ExportTooInaccurate when this machine's arithmetic takes it too far from the original.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.parent / f".{directory.name}.lock"):
        if not is_current(directory, EXPORTER):
            with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
                made = Path(scratch) / "model"
                made.mkdir()
                write_model(made, required_mean_cosine)
                put_in_place(made, directory, Path(scratch) / "old")
        return read_manifest(directory)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the file's lock, which ends with the process whatever happens to it. The file stays: removing it races."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put_in_place(made: Path, directory: Path, aside: Path) -> None:
    """Put the made directory where another may be. Needs the lock: the place is empty for a moment."""
    if directory.exists():
        directory.replace(aside)
    made.replace(directory)


def write_model(directory: Path, required_mean_cosine: float) -> None:
    """Model, tokenizer, static table and manifest into an empty directory.

    ExportTooInaccurate when the model is not good enough.
    """
    source = packaged_model()
    original = SentenceTransformerEmbedder()
    write_int8(source, directory / MODEL_FILE)
    shutil.copyfile(source / "tokenizer.json", directory / TOKENIZER_FILE)
    distill(directory)
    files = (MODEL_FILE, TOKENIZER_FILE, STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)
    manifest = ModelManifest(
        model=DEFAULT_MODEL,
        dimensions=original.dimensions,
        max_tokens=original.max_tokens,
        files={name: sha256_of(directory / name) for name in files},
        source_sha256=sha256_of(source / "model.safetensors"),
        exporter=EXPORTER,
        mean_cosine=0,
        lowest_cosine=0,
    )
    write_manifest(directory, manifest)
    cosines = agreement(OnnxEmbedder(directory), original)
    mean, lowest = float(cosines.mean()), float(cosines.min())
    if mean < required_mean_cosine:
        raise ExportTooInaccurate(DEFAULT_MODEL, mean, required_mean_cosine)
    write_manifest(directory, replace(manifest, mean_cosine=mean, lowest_cosine=lowest))


def write_manifest(directory: Path, manifest: ModelManifest) -> None:
    (directory / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def agreement(one: Embedder, other: Embedder) -> NDArray[np.float32]:
    """(n,) cosine between the two embedders' vectors of each sample text."""
    texts = sample_texts()
    return (one.embed(texts) * other.embed(texts)).sum(axis=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Export the packaged MiniLM to int8 ONNX.")
    parser.add_argument("directory", type=Path, nargs="?", default=default_directory())
    parser.add_argument("--required-mean-cosine", type=float, default=REQUIRED_MEAN_COSINE)
    arguments = parser.parse_args()
    try:
        manifest = export(arguments.directory, arguments.required_mean_cosine)
    except ExportTooInaccurate as error:
        print(error, file=sys.stderr)
        return TOO_INACCURATE
    print(f"{manifest.model} in {arguments.directory}, mean cosine to the original {manifest.mean_cosine:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
