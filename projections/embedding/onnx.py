"""Embeddings with onnxruntime: small, fast on a CPU, and no torch.

The only file that imports onnxruntime and tokenizers.

Guarantee: a text's vector does not depend on the texts embedded with it, because the model quantizes each
token separately (see `tools/minilm/graph.py`). So a replay gives the vectors that were live, in whatever batches.
"""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

# onnxruntime reports what it runs to its maker, and keeps an id for that in the user's cache. It reads this when it is
# imported (its own call comes too late), and a memory reports to nobody, whatever the environment says.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime as ort  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from projections.vectors.embedder import ModelUnavailable, encodable, unit_rows
from projections.vectors.model_files import REFERENCE_FILE, TOKENIZER_FILE, verify
from projections.vectors.static import StaticTable, load

# Rows times longest row of one run: bounds what a run allocates (measured: 65 MB over an idle session).
PADDED_TOKENS_PER_RUN = 2048
ROWS_PER_RUN = 64
# Tokenizing costs by the text's length while only its first 256 tokens count. Text after this many characters matters
# only when they are nearly all blanks or unbroken runs.
MAX_CHARACTERS = 32_768


class OnnxEmbedder:
    """A graph of a model's folder: verified when constructed, loaded by `open` or else by the first `embed`.

    onnxruntime's threads inherit the niceness of the thread that loads the model, and with `threads=1` there are none
    but the caller's: lower a thread's priority first, then call `open` in it.
    """

    def __init__(self, directory: Path, threads: int = 1, graph: str = "") -> None:
        """`graph` is a file of the folder, by default the first that its manifest names. Raises ModelUnavailable."""
        manifest = verify(directory)
        graph = graph or manifest.graph
        self.model = manifest.models[graph]
        self.dimensions = manifest.dimensions
        self.max_tokens = manifest.max_tokens
        self._directory, self._graph, self._prefixes = directory, directory / graph, manifest.prefixes
        self._threads = threads
        self._opening = threading.Lock()  # protects _session and _tokenizer from being loaded twice
        self._session: Any = None
        self._tokenizer: Any = None

    @cached_property
    def table(self) -> StaticTable | None:
        """The static vectors that were distilled from the model; None for a model without them."""
        return load(self._directory)

    def open(self) -> None:
        """Load the model in this thread; does nothing when it is loaded."""
        with self._opening:
            if self._session is None:
                self._tokenizer = load_tokenizer(self._directory / TOKENIZER_FILE, self.max_tokens)
                self._session = load_session(self._graph, self.model, self._threads)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length in the order of the texts."""
        return self._embed(self._prefixes[0], texts)

    def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `embedder.embed_questions`."""
        return self._embed(self._prefixes[1], texts)

    def _embed(self, prefix: str, texts: Sequence[str]) -> NDArray[np.float32]:
        self.open()
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # One by one: encode_batch would start a thread a core, whatever `threads` and the niceness say.
        texts = [prefix + encodable(text[:MAX_CHARACTERS]) for text in texts]
        tokens: list[list[int]] = [self._tokenizer.encode(text).ids for text in texts]
        for rows in runs([len(row) for row in tokens]):
            vectors[rows] = self._run([tokens[row] for row in rows])
        return unit_rows(vectors)

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(n, dimensions) mean of each row's token vectors, padding left out."""
        lengths = np.array([len(row) for row in tokens], dtype=np.int64)
        ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, of_text in enumerate(tokens):
            ids[row, : len(of_text)] = of_text
            mask[row, : len(of_text)] = 1
        (hidden,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        summed = np.einsum("nt,ntd->nd", mask.astype(np.float32), hidden)
        return summed / lengths[:, None].astype(np.float32)


def mean_cosine(embedder: OnnxEmbedder, directory: Path) -> float:
    """Of the vectors that this processor computes to those of the original float32 weights, for the reference texts."""
    reference = json.loads((directory / REFERENCE_FILE).read_bytes())
    expected = np.array(reference["vectors"], np.float32)
    return float((embedder.embed(reference["texts"]) * unit_rows(expected)).sum(axis=1).mean())


def runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers in groups of like length, so that little padding is computed; each group fits one run."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    starts = [0]
    for at, row in enumerate(order):
        rows = at - starts[-1] + 1
        if rows > 1 and (rows > ROWS_PER_RUN or rows * lengths[row] > PADDED_TOKENS_PER_RUN):
            starts.append(at)
    for start, end in pairwise([*starts, len(order)]):
        if start < end:
            yield order[start:end]


def load_tokenizer(path: Path, max_tokens: int) -> Any:
    """The tokenizer, cutting at the model's window and adding no padding."""
    tokenizer: Any = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def runtime_version() -> str:
    """Of onnxruntime, whose kernels differ between versions."""
    return str(getattr(ort, "__version__", ""))


def load_session(path: Path, model: str, threads: int) -> Any:
    """An inference session on the CPU whose idle threads sleep: spinning would take a core from the API."""
    runtime: Any = ort
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes share no base but Exception
        raise ModelUnavailable(model, str(error)) from error
