"""Embeddings with sentence-transformers: any of its models, at torch's price. The one file that imports it and torch,
which come with the extra `sentence-transformers`.

Nothing is downloaded: a model is a directory, or a name that is in the local Hugging Face cache already.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read once, when huggingface_hub is imported: hence before

import numpy as np
from numpy.typing import NDArray

from projections.vectors.embedder import ModelUnavailable, encodable, unit_rows

try:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging
except ImportError as error:
    raise ModelUnavailable(
        "of sentence-transformers", f"needs its package: pip install 'mnemolog[sentence-transformers]' ({error})"
    ) from error

BATCH = 32
MAX_CHARACTERS = 32_768  # as in onnx.py


class SentenceTransformerEmbedder:
    """A sentence-transformers model in float32, on a GPU if torch has one."""

    def __init__(self, name_or_path: str, threads: int | None = None) -> None:
        """A path's identity is its last component: give different models differently named directories."""
        if threads is not None:
            torch.set_num_threads(threads)
        transformers_logging.disable_progress_bar()
        name = Path(name_or_path).name if Path(name_or_path).is_dir() else name_or_path
        try:
            self._model: Any = SentenceTransformer(name_or_path, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelUnavailable(name, str(error)) from error
        self.model = f"{name}:fp32"
        self.dimensions = int(self._model.get_embedding_dimension())
        self.max_tokens = int(self._model.max_seq_length or 512)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length in the order of the texts."""
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        cut = [encodable(text[:MAX_CHARACTERS]) for text in texts]
        return unit_rows(self._model.encode(cut, batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True))
