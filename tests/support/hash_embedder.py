"""An embedder that is quick and needs no model."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 16


class HashEmbedder:
    """A test double for speed: the same text gives the same random unit vector. Counts what it is asked."""

    model = "test/hash"
    dimensions = DIMENSIONS
    max_tokens = 256

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        rows = np.stack([self.vector(text) for text in texts]) if texts else np.zeros((0, DIMENSIONS), np.float32)
        return rows.astype(np.float32)

    @staticmethod
    def vector(text: str) -> NDArray[np.float32]:
        row = np.random.default_rng(int.from_bytes(sha256(text.encode()).digest()[:8])).standard_normal(DIMENSIONS)
        return (row / np.linalg.norm(row)).astype(np.float32)
