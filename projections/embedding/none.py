"""No embeddings at all: recall is lexical only."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class NoEmbedder:
    """Gives vectors of no dimensions, which costs nothing and says plainly that there is no vector search."""

    model = "none"
    dimensions = 0
    max_tokens = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 0) float32."""
        return np.zeros((len(texts), 0), dtype=np.float32)
