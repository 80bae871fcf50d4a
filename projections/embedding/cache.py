"""Keys and bytes of cached vectors: a repeated text costs no inference, and a vector costs two bytes a dimension.

float16 costs a cosine of less than 1e-6 (see the test), far below what int8 inference costs.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from projections.embedding.embedder import unit_rows
from projections.embedding.errors import WrongVectorLength

BYTES_PER_DIMENSION = 2


def text_digest(text: str) -> bytes:
    """SHA-256 of a text: all that is needed to find its vector once the text itself is forgotten."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def cache_key(model: str, text: str) -> bytes:
    """SHA-256 of model, NUL and the text's digest."""
    return cache_key_of(model, text_digest(text))


def cache_key_of(model: str, digest: bytes) -> bytes:
    """The cache key of the text with this digest; a model's name holds no NUL, so no two pairs share bytes."""
    if "\0" in model:
        raise ValueError(f"a model's name holds no NUL: {model!r}")
    return hashlib.sha256(model.encode() + b"\0" + digest).digest()


def pack(vector: NDArray[np.float32]) -> bytes:
    """The vector as little-endian float16."""
    return vector.astype("<f2").tobytes()


def unpack(packed: bytes, dimensions: int) -> NDArray[np.float32]:
    """The float32 vector that was packed, scaled to length 1 again; WrongVectorLength if the bytes do not fit."""
    if len(packed) != dimensions * BYTES_PER_DIMENSION:
        raise WrongVectorLength(dimensions * BYTES_PER_DIMENSION, len(packed))
    return unit_rows(np.frombuffer(packed, dtype="<f2").astype(np.float32).reshape(1, -1))[0]
