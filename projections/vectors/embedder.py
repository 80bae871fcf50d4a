"""What every embedding provider fulfils: texts in, unit vectors out; where a process finds it; errors; cached vectors.

A repeated text costs no inference. A cached vector is float16, two bytes a dimension, which costs a cosine of less than
1e-6 (see the test), far below what int8 inference costs."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest.errors import MnemologError
from ingest.secrets.redaction import redacted


class Embedder(Protocol):
    """Turns texts into vectors. Synchronous and safe to call from several threads: callers run it in a thread."""

    @property
    def model(self) -> str:
        """Stable identity, quantisation included; vectors of different identities must never be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector; 0 means that nothing is embedded."""
        ...

    @property
    def max_tokens(self) -> int:
        """Text beyond this many of the model's tokens does not influence the vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length in the order of the texts; no texts give (0, dimensions)."""
        ...


class Embedders(Protocol):
    """Where the parts of a process find the live embedder (`embedding/live.py`)."""

    @property
    def current(self) -> Embedder:
        """The one that was live at the last look."""
        ...

    @property
    def spec(self) -> str:
        """How that one is configured."""
        ...

    @property
    def configured(self) -> str:
        """The spec that the configuration names."""
        ...

    @property
    def named(self) -> frozenset[str]:
        """The specs that a request may name, compared literally."""
        ...

    async def refresh(self) -> Embedder:
        """Look again. Raises what the server raises."""
        ...

    async def built(self, spec: str) -> Embedder:
        """Another one; raises EmbedderNotNamed, and EmbeddingError when this machine cannot have it."""
        ...


class FixedEmbedder:
    """An embedder that never changes."""

    def __init__(self, embedder: Embedder) -> None:
        self.current = embedder
        self.spec = self.configured = embedder.model
        self.named = frozenset({embedder.model})

    async def refresh(self) -> Embedder:
        """The same one."""
        return self.current

    async def built(self, spec: str) -> Embedder:
        """The same one, whatever the spec."""
        return self.current


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows scaled to length 1, float32 and contiguous; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 and so every tokenizer refuses, replaced by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class NoEmbedder:
    """Gives vectors of no dimensions, which costs nothing and says plainly that there is no vector search."""

    model = "none"
    dimensions = 0
    max_tokens = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 0) float32."""
        return np.zeros((len(texts), 0), dtype=np.float32)


class EmbeddingError(MnemologError):
    """An embedding could not be made."""

    code = "embedding_failed"


class UnknownEmbedder(EmbeddingError):
    """The configured embedder is not one that mnemolog knows: correct the configuration."""

    def __init__(self, spec: str, reason: str) -> None:
        super().__init__(f"embedder {redacted(spec)!r}: {reason}")
        self.spec = spec
        self.reason = reason


class EmbedderNotNamed(EmbeddingError):
    """The settings of this process do not name the embedder, so it is not used."""

    code = "embedder_not_named"

    def __init__(self) -> None:
        super().__init__(
            "neither MNEMOLOG_EMBEDDER nor MNEMOLOG_EMBEDDERS of this process names this embedder, so nothing is sent "
            "to it: add it to MNEMOLOG_EMBEDDERS of every API and worker process"
        )


class ModelUnavailable(EmbeddingError):
    """The model's files are missing, damaged or cannot be loaded on this machine: choose another embedder."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model}: {reason}")
        self.model = model
        self.reason = reason


class Unavailable:
    """Stands in for a live embedder that this process cannot load: embedding a text raises the reason."""

    max_tokens = 0

    def __init__(self, model: str, dimensions: int, reason: str) -> None:
        self.model, self.dimensions, self._reason = model, dimensions, reason

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises ModelUnavailable."""
        raise ModelUnavailable(self.model, self._reason)


class EmbeddingServiceUnavailable(EmbeddingError):
    """The remote service did not answer, or not in time, after every attempt: try again later."""

    def __init__(self, url: str, attempts: int, reason: str) -> None:
        super().__init__(f"{url}: {reason} (after {attempts} attempts)")
        self.url = url
        self.attempts = attempts
        self.reason = reason


class EmbeddingServiceRefused(EmbeddingError):
    """The remote service refused the request (key, model name, input): trying again will not help."""

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"{url}: HTTP {status}: {detail}")
        self.url = url
        self.status = status
        self.detail = detail


class InvalidEmbeddingResponse(EmbeddingError):
    """The remote service answered with something that is not the vectors asked for."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class WrongVectorLength(EmbeddingError):
    """A stored vector does not have the length its model says."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"expected {expected} bytes, got {actual}")
        self.expected = expected
        self.actual = actual


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
