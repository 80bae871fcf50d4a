"""Builds the embedder that a configuration names.

| spec | embedder |
|---|---|
| `default` | int8 MiniLM, from a package, 384 dimensions |
| `multilingual` | int8 multilingual-e5-small, from a package, 384 dimensions; needs the extra of that name |
| `none` | no vectors |
| `onnx:<directory>` | a model in the format of the packaged one (`tools/minilm`) |
| `sentence-transformers:<name or path>` | any model that is on this machine; needs the extra of that name |
| `openai:<base URL>\\|<model>\\|<dimensions>` | any server with an OpenAI-compatible `/embeddings` |
"""

import hashlib
import logging
import os
import platform
from pathlib import Path
from urllib.parse import urlsplit

from ingest.platform.addresses import is_http
from projections.vectors.embedder import Embedder, NoEmbedder, UnknownEmbedder
from projections.vectors.model_files import (
    FALLBACK_FILE,
    MODEL_FILE,
    MULTILINGUAL_PACKAGE,
    packaged_model,
    read_manifest,
)

REQUIRED_MEAN_COSINE = 0.985
"""0.997 is usual; int8 sums that saturate, on some processors without dot product instructions, give less than 0.95."""

logger = logging.getLogger(__name__)


def load_default(cache: Path | None = None, threads: int = 1, suffix: str = "") -> Embedder:
    """The packaged MiniLM, in int8 if this processor computes that exactly; its model is loaded by `open` or `embed`.

    `cache` is a folder for the result of the comparison. The model's name ends with `suffix`. Raises ModelUnavailable.
    """
    from projections.embedding.onnx import OnnxEmbedder

    directory = packaged_model()
    embedder = OnnxEmbedder(directory, threads, exact_graph(directory, cache))
    embedder.model += suffix
    return embedder


def exact_graph(directory: Path, cache: Path | None) -> str:
    """The file with the graph to use on this processor: that of int8 unless its vectors are too far from the original.

    The first call computes some texts (0.3 s) and writes the result to the folder `cache`, for later processes.
    """
    from projections.embedding.onnx import OnnxEmbedder, mean_cosine, runtime_version

    manifest = read_manifest(directory)
    key = "\n".join([manifest.files[MODEL_FILE], runtime_version(), _processor()])
    result = None if cache is None else cache / f"int8-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    try:
        cosine = float(result.read_text()) if result is not None else None
    except (OSError, ValueError):
        cosine = None
    if cosine is None:
        cosine = mean_cosine(OnnxEmbedder(directory), directory)
        if result is not None:
            _write(result, str(cosine))
    if cosine >= REQUIRED_MEAN_COSINE:
        return MODEL_FILE
    logger.warning(
        "int8 arithmetic is not exact on this processor (mean cosine %.3f): the embedder is %s, which is slower",
        cosine, manifest.models[FALLBACK_FILE],
    )  # fmt: skip
    return FALLBACK_FILE


def _processor() -> str:
    """What tells processors with different arithmetic apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    names = ("model name", "flags", "CPU implementer", "CPU part", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(names)}))


def _write(path: Path, text: str) -> None:
    """Replace a small file in one step. If the folder is not writable, the next process compares again."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text)
        beside.replace(path)
    except OSError as error:
        logger.info("the result of the int8 check cannot be stored: %s", error)


def build_embedder(
    spec: str = "default",
    *,
    cache: Path | None = None,
    threads: int = 1,
    api_key: str = "",
    timeout_s: float = 30.0,
) -> Embedder:
    """The embedder of the spec; UnknownEmbedder for an invalid spec, ModelUnavailable if it cannot be loaded.

    `cache` is the folder of `exact_graph`. `api_key` and `timeout_s` are for `openai:` only. Everything heavy is
    imported here, when it is chosen.
    """
    kind, _, rest = spec.partition(":")
    match kind, rest:
        case "default", "":
            return load_default(cache, threads)
        case "multilingual", "":
            return load_multilingual(cache, threads)
        case "default", "late":  # the same vectors under the name that they have in logs of earlier releases
            return load_default(cache, threads, "+tokens")
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


def load_multilingual(cache: Path | None = None, threads: int = 1) -> Embedder:
    """Return the packaged multilingual model, as `load_default` does. Raises ModelUnavailable.

    It has the static vectors of the default model, whose words are English: they find and score an English text until
    it has its vector, and tell whether recall can give a confidence.
    """
    from projections.embedding.onnx import OnnxEmbedder
    from projections.vectors import static

    directory = packaged_model(MULTILINGUAL_PACKAGE)
    embedder = OnnxEmbedder(directory, threads, exact_graph(directory, cache))
    embedder.table = static.load(packaged_model(), of_model=False)
    return embedder


def openai_compatible(spec: str, target: str, api_key: str, timeout_s: float) -> Embedder:
    """The embedder of `<base URL>|<model>|<dimensions>`. Raises UnknownEmbedder, whose message has no password."""
    from projections.embedding.openai_compatible import OpenAICompatibleEmbedder

    base_url, _, rest = target.partition("|")
    model, _, dimensions = rest.rpartition("|")
    try:
        parts = urlsplit(base_url)
        valid = is_http(parts)
    except ValueError:
        raise UnknownEmbedder(spec, "the URL is invalid") from None
    if not (valid and model and dimensions.isdecimal() and int(dimensions)):
        raise UnknownEmbedder(spec, "write it as openai:<base URL>|<model>|<dimensions>")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UnknownEmbedder(
            spec, "a base URL cannot have a user, password or query; put the key in MNEMOLOG_EMBEDDER_KEY"
        )
    return OpenAICompatibleEmbedder(base_url, model, int(dimensions), api_key=api_key, timeout_s=timeout_s)
