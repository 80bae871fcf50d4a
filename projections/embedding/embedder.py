"""The contract every embedding provider fulfils: texts in, unit vectors out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


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


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows scaled to length 1, float32 and contiguous; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 and so every tokenizer refuses, replaced by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
