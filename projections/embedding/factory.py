"""Builds the embedder that a configuration names.

| spec | embedder |
|---|---|
| `default` | int8 MiniLM, exported on first use, 384 dimensions |
| `none` | no vectors |
| `onnx:<directory>` | a model that was exported before |
| `sentence-transformers:<name or path>` | any model that is on this machine |
| `openai:<base URL>\\|<model>\\|<dimensions>` | any server with an OpenAI-compatible `/embeddings` |
"""

from pathlib import Path
from urllib.parse import urlsplit

from projections.embedding.default_model import load_default
from projections.embedding.embedder import Embedder
from projections.embedding.errors import UnknownEmbedder
from projections.embedding.none import NoEmbedder


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
