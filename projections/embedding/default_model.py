"""The default embedder: the exported int8 MiniLM, made on first use in a process of its own.

The calling process never imports torch, unless it allows the fallback and the export is impossible.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

from projections.embedding.embedder import Embedder
from projections.embedding.errors import ModelUnavailable
from projections.embedding.model_files import DEFAULT_MODEL, default_directory, is_current

EXPORTER = 1  # a model of another exporter is made anew
REQUIRED_MEAN_COSINE = 0.985  # 0.997 is usual; one scale per weight instead of per column, say, gave 0.946
TOO_INACCURATE = 3  # exit status of the export
EXPORT_TIMEOUT_S = 300.0

logger = logging.getLogger(__name__)


def load_default(
    directory: Path | None = None,
    threads: int = 1,
    fall_back: bool = True,
    required_mean_cosine: float = REQUIRED_MEAN_COSINE,
) -> Embedder:
    """The int8 MiniLM, exported first if the directory holds no whole one; its model is loaded by `open` or `embed`.

    When it cannot be had: the slower original with a warning, or ModelUnavailable with `fall_back=False` (for a
    process that must not import torch). The two have different identities, so their vectors never mix.
    """
    place = directory or default_directory()
    try:
        if not is_current(place, EXPORTER):
            export_in_subprocess(place, required_mean_cosine)
        from projections.embedding.onnx import OnnxEmbedder

        return OnnxEmbedder(place, threads=threads)
    except ModelUnavailable as error:
        if not fall_back:
            raise
        logger.warning("no int8 model, using sentence-transformers, which is slower: %s", error)
    from projections.embedding.sentence_transformer import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(threads=threads)


def export_in_subprocess(directory: Path, required_mean_cosine: float = REQUIRED_MEAN_COSINE) -> None:
    """Run the export as a process; ModelUnavailable with its last words when it fails."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "projections.embedding.export", str(directory)]
    command += ["--required-mean-cosine", str(required_mean_cosine)]
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    environment = os.environ | offline | {"PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=EXPORT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelUnavailable(DEFAULT_MODEL, f"export did not finish: {error}") from error
    if done.returncode != 0:
        last_words = done.stderr.strip().rpartition("\n")[2]
        raise ModelUnavailable(DEFAULT_MODEL, f"export ended with status {done.returncode}: {last_words}")
