"""Embeddings: texts to unit vectors. Importing this loads neither torch nor onnxruntime; building an embedder does."""

from projections.embedding.chunks import MAX_CHUNKS, chunk
from projections.embedding.embedder import (
    Embedder,
    EmbeddingError,
    EmbeddingServiceRefused,
    EmbeddingServiceUnavailable,
    InvalidEmbeddingResponse,
    ModelUnavailable,
    UnknownEmbedder,
    WrongVectorLength,
    cache_key,
    pack,
    unpack,
)
from projections.embedding.factory import build_embedder

__all__ = [
    "MAX_CHUNKS",
    "Embedder",
    "EmbeddingError",
    "EmbeddingServiceRefused",
    "EmbeddingServiceUnavailable",
    "InvalidEmbeddingResponse",
    "ModelUnavailable",
    "UnknownEmbedder",
    "WrongVectorLength",
    "build_embedder",
    "cache_key",
    "chunk",
    "pack",
    "unpack",
]
