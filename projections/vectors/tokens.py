"""Late interaction: the vectors of a text's tokens, which come out of the inference that makes its own vector.

They let a search compare each token of a question with each token of a document (`VectorIndex.max_similarity`). They
are cached behind the text's vector, and travel and go with it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from projections.vectors.embedder import Embedder, unit_rows

TOKEN_DIMENSIONS = 64
"""Of 384; with 192 recall is no better."""
MOST_TOKENS = 64
"""Of a document, from its beginning, and of a question: 64 bytes each."""
SCALE = 127
LATE_SUFFIX = "+tokens"
"""What the name of its model ends with: what it caches, and its indexes, are others than those without."""

Tokens = NDArray[np.int8]
"""(tokens, TOKEN_DIMENSIONS), unit rows times SCALE."""


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also gives the vectors of tokens."""

    def embed_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[Tokens]]:
        """What `embed` gives, and each text's first MOST_TOKENS tokens."""
        ...


def embed(embedder: Embedder, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[Tokens]]:
    """(n, dimensions) float32, the vectors of texts, and the tokens of each: none unless the embedder makes them."""
    if isinstance(embedder, TokenEmbedder):
        return embedder.embed_with_tokens(texts)
    return embedder.embed(texts), [np.empty((0, TOKEN_DIMENSIONS), np.int8)] * len(texts)


def compressed(tokens: NDArray[np.float32]) -> Tokens:
    """The first MOST_TOKENS of `(n, dimensions)` token vectors of the packaged model, without the markers at both ends:
    those are alike in all texts (recall at ten of tokens alone on chats 67.8 with them, 70.1 without)."""
    return np.rint(SCALE * unit_rows(tokens[1:-1][:MOST_TOKENS] @ projection())).astype(np.int8)


@cache
def projection() -> NDArray[np.float32]:
    """(384, TOKEN_DIMENSIONS), principal components of token vectors, made by `python -m benchmarks fit_tokens`."""
    return np.load(Path(__file__).with_name("tokens.npy")).astype(np.float32)
