"""The table of static vectors of the packaged model (see `build.py`).

It is made as model2vec does (Tulkens and van Dongen 2024): every word of the model's vocabulary goes through
the model alone, PCA over all of them keeps what distinguishes them, and rarer words count more, by Zipf's law from the
place in the vocabulary, which is in order of frequency. Unlike there, words with one stem share a vector, because an
index has stems, and a word outside the vocabulary has none: its pieces added nothing (recall on three data sets).
"""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from ingest.platform.processes import usable_cores
from projections.embedding.onnx import load_session
from projections.text.terms import MONTHS, terms
from projections.vectors.model_files import DEFAULT_MODEL, STATIC_TOKENIZER_FILE, STATIC_WEIGHTS_FILE, TOKENIZER_FILE
from projections.vectors.static import UNKNOWN, WEIGHTS

DIMENSIONS = 128
"""Of 384; recall is the same with 256 (within 0.3 on three data sets) and 96, and half a point less with 64."""
WORDS_A_STEM = 3
"""The most frequent words of a stem make its vector; later ones count less."""
_WORDS_A_RUN, _RUNS_A_STEP = 512, 8
"""A step of progress takes a second or so."""
_MONTHS = frozenset(terms(" ".join(MONTHS)))


def distill(directory: Path, graph: Path, on_progress: Callable[[str], None] = lambda what: None) -> None:
    """Write the table into a model's directory, of the graph and the tokenizer there."""
    vocabulary: dict[str, int] = json.loads((directory / TOKENIZER_FILE).read_bytes())["model"]["vocab"]
    words = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if not word.startswith(("##", "["))]
    through_model = _through_model(graph, [vocabulary[word] for word in words], vocabulary, on_progress)
    stems, vectors = by_stem(words, principal(through_model))
    (directory / STATIC_WEIGHTS_FILE).parent.mkdir(exist_ok=True)
    save_file({WEIGHTS: vectors}, directory / STATIC_WEIGHTS_FILE)
    (directory / STATIC_TOKENIZER_FILE).write_text(json.dumps(tokenizer([UNKNOWN, *stems]), ensure_ascii=False) + "\n")


def principal(vectors: NDArray[np.float32], dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """(n, dimensions), the vectors along their principal components, those of most variance first."""
    centered = (vectors - vectors.mean(axis=0)).astype(np.float64)
    _, components = np.linalg.eigh(centered.T @ centered)
    return (centered @ components[:, ::-1][:, :dimensions]).astype(np.float32)


def by_stem(words: list[str], vectors: NDArray[np.float32]) -> tuple[list[str], NDArray[np.float32]]:
    """The stems of words, which are in order of frequency, and (stems + 1, dimensions) vectors; the first is zeros.

    Words that give several terms, or none, are left out. So are numbers and months: a document has its date among its
    terms, and two that say the same on two days must be equally near.
    """
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        stems = terms(word)
        if len(stems) == 1 and not stems[0].isdigit() and stems[0] not in _MONTHS:
            places.setdefault(stems[0], []).append(place)
    rows = np.zeros((len(places) + 1, vectors.shape[1]), np.float32)
    for row, of_stem in enumerate(places.values(), start=1):
        shares = 1 / np.arange(1, len(of_stem[:WORDS_A_STEM]) + 1)
        mean = shares @ vectors[of_stem[:WORDS_A_STEM]] / shares.sum()
        rows[row] = np.log(2 + of_stem[0]) * mean
    return list(places), rows


def tokenizer(vocabulary: list[str]) -> dict[str, Any]:
    """A tokenizer of words between spaces, in the file format of `tokenizers`."""
    model = {
        "type": "WordLevel",
        "vocab": {word: place for place, word in enumerate(vocabulary)},
        "unk_token": UNKNOWN,
    }
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None, "model": model,
    }  # fmt: skip


def _through_model(
    graph: Path, words: list[int], vocabulary: Mapping[str, int], on_progress: Callable[[str], None]
) -> NDArray[np.float32]:
    """(n, hidden), the mean of the model's output for each word between its two markers."""
    session = load_session(graph, DEFAULT_MODEL, threads=1)
    first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]

    def of_some(start: int) -> NDArray[np.float32]:
        ids = np.array([[first, word, last] for word in words[start : start + _WORDS_A_RUN]], np.int64)
        (hidden,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return hidden.mean(axis=1)

    parts: list[NDArray[np.float32]] = []
    with ThreadPoolExecutor(usable_cores()) as threads:  # a run each: threads within a run wait for each other
        for vectors in threads.map(of_some, range(0, len(words), _WORDS_A_RUN)):
            if len(parts) % _RUNS_A_STEP == 0:
                on_progress(f"static vectors, {100 * len(parts) * _WORDS_A_RUN // len(words)} %")
            parts.append(vectors)
    return np.concatenate(parts)
