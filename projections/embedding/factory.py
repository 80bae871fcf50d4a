"""Builds the embedder that a configuration names.

| spec | embedder |
|---|---|
| `default` | int8 MiniLM, exported on first use, 384 dimensions |
| `none` | no vectors |
| `onnx:<directory>` | a model that was exported before |
| `sentence-transformers:<name or path>` | any model that is on this machine |
| `openai:<base URL>\\|<model>\\|<dimensions>` | any server with an OpenAI-compatible `/embeddings` |

The calling process never imports torch for the default, unless it allows the fallback and the export is impossible.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from projections.embedding.embedder import Embedder, ModelUnavailable, NoEmbedder, UnknownEmbedder
from projections.embedding.model_files import DEFAULT_MODEL, default_directory, is_current

EXPORTER = 2  # a model of another exporter is made anew
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


def build_embedder(
    spec: str = "default",
    *,
    directory: Path | None = None,
    threads: int = 1,
    allow_torch: bool = True,
    api_key: str = "",
    timeout_s: float = 30.0,
) -> Embedder:
    """The embedder the spec names; UnknownEmbedder if it names none, ModelUnavailable if it cannot be had.

    `directory`: where the default model is kept. `allow_torch=False`: fail rather than import torch. `api_key`,
    `timeout_s`: for `openai:` only. Everything heavy is imported here, when it is chosen.
    """
    kind, _, rest = spec.partition(":")
    match kind, rest:
        case "default", "":
            return load_default(directory, threads=threads, fall_back=allow_torch)
        case "none", "":
            return NoEmbedder()
        case "onnx", path if path:
            from projections.embedding.onnx import OnnxEmbedder

            return OnnxEmbedder(Path(path), threads=threads)
        case "sentence-transformers", name if name:
            if not allow_torch:
                raise UnknownEmbedder(spec, "needs torch, which this process may not import")
            from projections.embedding.sentence_transformer import SentenceTransformerEmbedder

            return SentenceTransformerEmbedder(name, threads=threads)
        case "openai", target:
            return openai_compatible(spec, target, api_key, timeout_s)
        case _:
            known = (
                "default, none, onnx:<directory>, sentence-transformers:<name>, openai:<base URL>|<model>|<dimensions>"
            )
            raise UnknownEmbedder(spec, f"is none of {known}")


def openai_compatible(spec: str, target: str, api_key: str, timeout_s: float) -> Embedder:
    from projections.embedding.openai_compatible import OpenAICompatibleEmbedder

    """The embedder of `<base URL>|<model>|<dimensions>`. Raises UnknownEmbedder, whose message has no password."""
    base_url, _, rest = target.partition("|")
    model, _, dimensions = rest.rpartition("|")
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise UnknownEmbedder(spec, "the URL cannot be read") from None
    if not (valid and model and dimensions.isdecimal() and int(dimensions)):
        raise UnknownEmbedder(spec, "write it as openai:<base URL>|<model>|<dimensions>")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UnknownEmbedder(spec, "a base URL has no user, password or query; a key belongs in MNEMOLOG_EMBEDDER_KEY")
    return OpenAICompatibleEmbedder(base_url, model, int(dimensions), api_key=api_key, timeout_s=timeout_s)
