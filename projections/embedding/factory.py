"""Builds the embedder that a configuration names.

| spec | embedder |
|---|---|
| `default` | int8 MiniLM, exported on first use, 384 dimensions |
| `multilingual` | Universal Sentence Encoder for 15 languages, 512 dimensions; needs the extra of that name |
| `default:late` | the same, with vectors of tokens for late interaction |
| `none` | no vectors |
| `onnx:<directory>` | a model that was exported before |
| `sentence-transformers:<name or path>` | any model that is on this machine; needs the extra of that name |
| `openai:<base URL>\\|<model>\\|<dimensions>` | any server with an OpenAI-compatible `/embeddings` |
"""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import IO
from urllib.parse import urlsplit

from projections.vectors.embedder import Embedder, ModelUnavailable, NoEmbedder, UnknownEmbedder
from projections.vectors.model_files import DEFAULT_MODEL, TOKENIZER_FILE, default_directory, is_current

EXPORT_TIMEOUT_S = 300.0

logger = logging.getLogger(__name__)


def load_default(directory: Path | None = None, threads: int = 1, *, late: bool = False) -> Embedder:
    """The int8 MiniLM, exported first if the directory has no complete one; its model is loaded by `open` or `embed`.

    With `late` it gives vectors of tokens, too. ModelUnavailable when the export fails.
    """
    directory = directory or default_directory()
    prepare_default(directory)
    from projections.embedding.onnx import LateEmbedder, OnnxEmbedder

    return (LateEmbedder if late else OnnxEmbedder)(directory, threads=threads)


def prepare_default(directory: Path, on_progress: Callable[[str], None] = logger.info) -> None:
    """Export the default model if the directory has no complete one: that takes seconds, once.

    It runs as a process; `on_progress` is called with each line that it prints. ModelUnavailable, with its last line,
    when it fails.
    """
    if is_current(directory):
        return
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "projections.embedding.export", str(directory)]
    with tempfile.TemporaryFile("w+") as errors:
        try:
            status = _run(
                command, {**os.environ, "PYTHONPATH": path}, errors,
                lambda line: on_progress(f"exporting the embedding model, once: {line}"),
            )  # fmt: skip
        except OSError as error:
            raise ModelUnavailable(DEFAULT_MODEL, f"export did not finish: {error}") from error
        errors.seek(0)
        last_words = errors.read().strip().rpartition("\n")[2]
    if status < 0:
        raise ModelUnavailable(DEFAULT_MODEL, f"export did not finish: signal {-status}")
    if status:
        raise ModelUnavailable(DEFAULT_MODEL, f"export ended with status {status}: {last_words}")


def _run(command: list[str], environment: dict[str, str], errors: IO[str], on_line: Callable[[str], None]) -> int:
    """The exit status of a process, which is killed after EXPORT_TIMEOUT_S, and when waiting for it is interrupted."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        limit = Timer(EXPORT_TIMEOUT_S, process.kill)
        limit.daemon = True
        limit.start()
        try:
            for line in process.stdout or ():
                on_line(line.rstrip())
            return process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()


def build_embedder(
    spec: str = "default",
    *,
    directory: Path | None = None,
    threads: int = 1,
    api_key: str = "",
    timeout_s: float = 30.0,
) -> Embedder:
    """The embedder of the spec; UnknownEmbedder for an invalid spec, ModelUnavailable if it cannot be loaded.

    `directory` is that of the default model. `api_key` and `timeout_s` are for `openai:` only. Everything heavy is
    imported here, when it is chosen.
    """
    kind, _, rest = spec.partition(":")
    match kind, rest:
        case "default", "":
            return load_default(directory, threads=threads)
        case "multilingual", "":
            return load_multilingual(directory, threads)
        case "default", "late":
            return load_default(directory, threads=threads, late=True)
        case "none", "":
            return NoEmbedder()
        case "onnx", path if path:
            from projections.embedding.onnx import OnnxEmbedder

            return OnnxEmbedder(Path(path), threads=threads)
        case "sentence-transformers", name if name:
            from projections.embedding.sentence_transformer import SentenceTransformerEmbedder

            return SentenceTransformerEmbedder(name, threads=threads)
        case "openai", target:
            return openai_compatible(spec, target, api_key, timeout_s)
        case _:
            specs = "default, multilingual, none, onnx:<directory>, sentence-transformers:<name>"
            specs += ", openai:<base URL>|<model>|<dimensions>"
            raise UnknownEmbedder(spec, f"is not one of {specs}")


def load_multilingual(directory: Path | None = None, threads: int = 1) -> Embedder:
    """The multilingual model, with the static vectors of the default one, which is exported first if it is not here.

    ModelUnavailable when its package is not installed, or the export fails.
    """
    from projections.embedding.multilingual import MultilingualEmbedder
    from projections.vectors import static

    directory = directory or default_directory()
    prepare_default(directory)
    return MultilingualEmbedder(static.load(directory, of_model=False), threads)


def token_counter(directory: Path | None = None) -> Callable[[str], int] | None:
    """What counts the tokens of a text as the packaged model does, whichever embedder is used; None without its files.

    Loads the tokenizer, some 60 ms.
    """
    path = (directory or default_directory()) / TOKENIZER_FILE
    if not path.is_file():
        return None
    from projections.embedding import onnx

    return onnx.token_counter(path)


def openai_compatible(spec: str, target: str, api_key: str, timeout_s: float) -> Embedder:
    """The embedder of `<base URL>|<model>|<dimensions>`. Raises UnknownEmbedder, whose message has no password."""
    from projections.embedding.openai_compatible import OpenAICompatibleEmbedder

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
