"""Makes the default model: `python -m projections.embedding.export [directory]`. It takes seconds and both cores, so it
runs as a process, which prints its progress on stdout.

Guarantee: the directory has a complete, checked model or is unchanged. Several processes may export at once: one works,
the others wait for it and use its model.

The model is int8. It is compared with the same weights in float32 on a sample of texts, because arithmetic differs
between processors; if it is not exact enough, the float32 graph is the model, under another name.
"""

import argparse
import fcntl
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from projections.embedding.distill import distill, write_graph
from projections.embedding.onnx import OnnxEmbedder
from projections.vectors.embedder import ModelUnavailable
from projections.vectors.model_files import (
    DEFAULT_MODEL,
    EXPORTER,
    FLOAT_MODEL,
    FLOAT_MODEL_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    default_directory,
    is_current,
    packaged_model,
    read_manifest,
    sha256_of,
)

REQUIRED_MEAN_COSINE = 0.985
"""0.997 is usual; one scale per weight instead of per column, say, gave 0.946."""
COMPARED = slice(None, None, 3)
"""Every third of the sample texts, including long ones. All take seconds in float32, and inexact arithmetic shows in
any."""


def export(
    directory: Path,
    required_mean_cosine: float = REQUIRED_MEAN_COSINE,
    on_progress: Callable[[str], None] = lambda what: None,
) -> ModelManifest:
    """The manifest of the model that is in the directory afterwards; does nothing if a complete one exists.

    ModelUnavailable without the packaged weights. `on_progress` is called with each step.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.parent / f".{directory.name}.lock", lambda: on_progress("another process does; waiting")):
        if not is_current(directory):
            with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
                model = write_model(Path(scratch), required_mean_cosine, on_progress)
                # under the lock, because there is no directory for a moment
                if directory.exists():
                    directory.replace(Path(scratch) / "old")
                model.replace(directory)
        return read_manifest(directory)


@contextmanager
def locked(path: Path, on_wait: Callable[[], None]) -> Generator[None]:
    """Hold the file's lock, which ends with the process whatever happens to it. The file stays: removing it races."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_model(scratch: Path, required_mean_cosine: float, on_progress: Callable[[str], None]) -> Path:
    """The directory of the complete model, below `scratch`: int8, or float32 if that is not exact enough."""
    source = packaged_model()
    on_progress("the graph, from the packaged weights")
    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write_graph_of, source, scratch, model) for model in (DEFAULT_MODEL, FLOAT_MODEL)]
        int8, original = (written.result() for written in writing)
        on_progress("comparing int8 with float32")
        texts = sample_texts()[COMPARED]
        vectors, others = (threads.submit(OnnxEmbedder(path).embed, texts) for path in (int8, original))
        cosines = (vectors.result() * others.result()).sum(axis=1)
    mean, lowest = float(cosines.mean()), float(cosines.min())
    directory = int8
    if mean < required_mean_cosine:
        on_progress(f"float32 is used, which is slower: int8 has cosine {mean:.4f} to it, not {required_mean_cosine}")
        directory, mean, lowest = original, 1.0, 1.0
    manifest = read_manifest(directory)
    distill(directory, directory / manifest.graph, on_progress)
    static = {name: sha256_of(directory / name) for name in (STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)}
    files = {**manifest.files, **static}
    write_manifest(directory, replace(manifest, files=files, mean_cosine=mean, lowest_cosine=lowest))
    return directory


def write_graph_of(source: Path, parent: Path, model: str) -> Path:
    """A new directory in `parent` with the graph and the tokenizer of `source`, and a manifest that names them."""
    directory = parent / ("int8" if model == DEFAULT_MODEL else "float32")
    directory.mkdir()
    graph = MODEL_FILE if model == DEFAULT_MODEL else FLOAT_MODEL_FILE
    write_graph(source, directory / graph, int8=model == DEFAULT_MODEL)
    shutil.copyfile(source / "tokenizer.json", directory / TOKENIZER_FILE)
    manifest = ModelManifest(
        model=model,
        dimensions=json.loads((source / "config.json").read_bytes())["hidden_size"],
        max_tokens=json.loads((source / "sentence_bert_config.json").read_bytes())["max_seq_length"],
        files={name: sha256_of(directory / name) for name in (graph, TOKENIZER_FILE)},
        source_sha256=sha256_of(source / "model.safetensors"),
        exporter=EXPORTER,
        mean_cosine=0,
        lowest_cosine=0,
    )
    write_manifest(directory, manifest)
    return directory


def write_manifest(directory: Path, manifest: ModelManifest) -> None:
    (directory / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Export the packaged MiniLM to int8 ONNX.")
    parser.add_argument("directory", type=Path, nargs="?", default=default_directory())
    directory: Path = parser.parse_args().directory
    try:
        manifest = export(directory, on_progress=lambda what: print(what, flush=True))
    except (ModelUnavailable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{manifest.model} in {directory}, mean cosine to float32 {manifest.mean_cosine:.4f}")
    return 0


def sample_texts() -> list[str]:
    """At least 64 different texts: short, prose, code, logs, other scripts, beyond the model's window."""
    sample = Path(__file__).with_name("sample_texts.txt").read_text("utf-8")
    groups = [group.split("\n") for group in sample.rstrip("\n").split("\n\n")]
    short, prose, technical, _ = groups
    medium = [" ".join(prose[start : start + 4]) for start in range(0, len(prose), 6)]
    long = [" ".join(prose), "\n".join(technical), " ".join(prose[::-1] + short)]
    return [text for group in groups for text in group] + medium + long


if __name__ == "__main__":
    sys.exit(main())
