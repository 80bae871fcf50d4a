"""Static vectors: one for each index term, distilled from the packaged model. A document's is their sum, unit length.

What a process must know to embed a document is in its index already, and it takes microseconds: no inference, no queue.
A folder in the format of sentence-transformers' `StaticEmbedding`, whose tokens are index terms; read with numpy alone.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]

from projections.embedding.embedder import Embedder, unit_rows
from projections.embedding.model_files import STATIC_TOKENIZER_FILE, STATIC_WEIGHTS_FILE, read_manifest

STATIC = "static-"
"""What the name of every table begins with."""
UNKNOWN = "[UNK]"
WEIGHTS = "embedding.weight"
MAX_TERMS = 4_096
"""Of a document, from its beginning: what a longer one says adds little to a mean."""
_TERMS_AT_ONCE = 16_384
"""Bounds what embedding many documents takes: 8 MiB at 128 dimensions."""


class StaticTable:
    """The vectors of index terms. Immutable, so any thread may use it."""

    def __init__(self, name: str, terms: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """`name` is the identity of the vectors; `vectors` (n, dimensions) are weighted, a row for each of `terms`."""
        self.name = name
        self.dimensions = int(vectors.shape[1])
        self._vectors = np.vstack([vectors, np.zeros((1, self.dimensions), np.float32)])  # last: unknown terms
        self._place = {term.encode(): place for place, term in enumerate(terms)}

    def places(self, terms: Sequence[bytes]) -> NDArray[np.int32]:
        """(n,), the number of each term in the table; -1 for one that is not in it."""
        find = self._place.get
        return np.fromiter((find(term, -1) for term in terms), np.int32, len(terms))

    def embed(self, documents: Sequence[bytes]) -> NDArray[np.float32]:
        """(n, dimensions) float32, of documents as their terms joined by spaces, rows of unit length.

        A row of zeros for a document no term of which has a vector.
        """
        found = np.zeros((len(documents), self.dimensions), np.float32)
        pending: list[bytes] = []
        ends: list[int] = []
        first = 0
        for place, document in enumerate(documents):
            pending += document.split(None, MAX_TERMS)[:MAX_TERMS]
            ends.append(len(pending))
            if len(pending) >= _TERMS_AT_ONCE or place == len(documents) - 1:
                found[first : place + 1] = self._sums(pending, ends)
                pending, ends, first = [], [], place + 1
        return unit_rows(found)

    def _sums(self, terms: Sequence[bytes], ends: Sequence[int]) -> NDArray[np.float32]:
        """(documents, dimensions), the sum over each document's terms; documents end before the places in `ends`."""
        # a zero row behind each document: reduceat takes the next document's first term for the sum of an empty one
        places = np.insert(self.places(terms), ends, -1)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.intp) + np.arange(len(ends))
        return np.add.reduceat(self._vectors[places], starts, axis=0)


def table_of(embedder: Embedder) -> StaticTable | None:
    """The table that was distilled from an embedder's model; None for one that has none.

    Only the packaged model has one, because its words are English; others may know any language.
    """
    return getattr(embedder, "table", None)


def load(directory: Path) -> StaticTable | None:
    """The table in a model's directory; None where an earlier export made none. Raises ModelUnavailable."""
    manifest = read_manifest(directory)
    if (digest := manifest.files.get(STATIC_WEIGHTS_FILE)) is None:
        return None
    tokenizer = json.loads((directory / STATIC_TOKENIZER_FILE).read_bytes())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    terms = sorted(vocabulary, key=vocabulary.__getitem__)
    vectors: NDArray[np.float32] = load_file(directory / STATIC_WEIGHTS_FILE)[WEIGHTS].astype(np.float32)
    # tables of two machines may differ in their last digits, so the bytes are part of the name
    return StaticTable(f"{STATIC}{digest[:12]}", terms, vectors)
