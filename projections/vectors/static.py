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

from projections.kernel.module import native
from projections.vectors.columns import Hashes, TermRows, hashed, places_of
from projections.vectors.embedder import Embedder, unit_rows
from projections.vectors.model_files import STATIC_TOKENIZER_FILE, STATIC_WEIGHTS_FILE, read_manifest

STATIC = "static-"
"""What the name of every table begins with."""
UNKNOWN = "[UNK]"
WEIGHTS = "embedding.weight"
MAX_TERMS = 4_096
"""Of a document, from its beginning: what a longer one says adds little to a mean."""


class StaticTable:
    """The vectors of index terms. Immutable, so any thread may use it."""

    def __init__(self, name: str, terms: Sequence[str], vectors: NDArray[np.float32], *, of_model: bool = True) -> None:
        """`name` is the identity of the vectors; `vectors` (n, dimensions) are weighted, a row for each of `terms`.

        `of_model`: the model's vectors beside them are of the model that they were distilled from, and find no more.
        Those of another model know other languages too, and need a graph of their own.
        """
        self.name, self.of_model = name, of_model
        self.dimensions = int(vectors.shape[1])
        self._vectors = np.vstack([vectors, np.zeros((1, self.dimensions), np.float32)])  # last: unknown terms
        self.hashes, self._places = np.unique(hashed(term.encode() for term in terms), return_index=True)

    def places(self, terms: Hashes) -> NDArray[np.int64]:
        """(n,), the number of each term in the table, terms as their hashes; -1 for one that is not in it."""
        places = places_of(terms, self.hashes)
        return np.where(places >= 0, self._places[places], -1)

    def knows(self, terms: Hashes) -> NDArray[np.bool_]:
        """(n,), which of the terms have a vector, terms as their hashes."""
        return self.places(terms) >= 0

    def embed_query(self, terms: Sequence[str]) -> NDArray[np.float32] | None:
        """(dimensions,) float32; None when none of the terms has a vector.

        As long as the share of its terms that have one: what it says beside them, no vector is known to say.
        """
        places = self.places(hashed(term.encode() for term in terms))
        in_table = places[places >= 0]
        total = self._vectors[in_table].sum(axis=0)
        length = float(np.linalg.norm(total))
        return total * (len(in_table) / len(places) / length) if length else None

    def embed(self, documents: TermRows) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length; zeros for a document no term of which has a vector."""
        table = self.hashes, self._places, self._vectors
        return unit_rows(native.sums_of_terms(*table, documents.hashes, documents.lengths, MAX_TERMS))


def table_of(embedder: Embedder) -> StaticTable | None:
    """The table of an embedder's static vectors; None for one that has none.

    Only packaged models have one, because its words are English; others may know any language.
    """
    return getattr(embedder, "table", None)


def load(directory: Path, *, of_model: bool = True) -> StaticTable | None:
    """The table in a model's directory; None for a model without one. Raises ModelUnavailable."""
    manifest = read_manifest(directory)
    if (digest := manifest.files.get(STATIC_WEIGHTS_FILE)) is None:
        return None
    tokenizer = json.loads((directory / STATIC_TOKENIZER_FILE).read_bytes())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    terms = sorted(vocabulary, key=vocabulary.__getitem__)
    vectors: NDArray[np.float32] = load_file(directory / STATIC_WEIGHTS_FILE)[WEIGHTS].astype(np.float32)
    # tables that were built on two machines may differ in their last digits, so the bytes are part of the name
    return StaticTable(f"{STATIC}{digest[:12]}", terms, vectors, of_model=of_model)
