"""Products and codes of vectors, in numpy: the oracle of the compiled functions."""

import numpy as np
from numpy.typing import NDArray

from projections.vectors.vectors import Bytes, Floats

Codes = NDArray[np.uint64]
_LARGEST, _LARGEST_ASKED = 127, 32_767
_SMALLEST = np.float32(1e-30)


def quantized(rows: Floats) -> tuple[Bytes, Floats]:
    """Return what the compiled `quantize` returns."""
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    packed = np.rint(rows * (np.float32(_LARGEST) / np.where(largest > _SMALLEST, largest, 1))).astype(np.int8)
    lengths = np.sqrt((packed.astype(np.int64) ** 2).sum(axis=1))
    return packed, (1 / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _quantized_query(query: Floats) -> tuple[NDArray[np.int16], float]:
    """(dimensions,) int16, and the scale of its components."""
    query = np.nan_to_num(query, posinf=0.0, neginf=0.0)
    largest = float(np.abs(query).max(initial=0.0))
    scale = largest / _LARGEST_ASKED if largest > _SMALLEST else 1.0
    return np.rint(query / scale).astype(np.int16), scale


def cosines(
    matrix: Bytes,
    scale: Floats,
    first: NDArray[np.int64],
    count: NDArray[np.int32],
    documents: NDArray[np.int64],
    query: Floats,
) -> Floats:
    """Return what the compiled `cosines` returns."""
    components, query_scale = _quantized_query(query)
    best = np.full(len(documents), np.nan, np.float32)
    for place, document in enumerate(documents.tolist()):
        if document < len(count) and count[document]:
            rows = slice(first[document], first[document] + count[document])
            sums = matrix[rows].astype(np.float64) @ components.astype(np.float64)  # whole numbers below 2^53: exact
            best[place] = (sums * scale[rows] * query_scale).astype(np.float32).max()
    return best


def nearest_codes(
    codes: Codes, document: NDArray[np.int64], allowed: NDArray[np.bool_], query: Codes, most: int
) -> NDArray[np.int64]:
    """Return what the compiled `nearest_codes` returns."""
    rows = np.flatnonzero((document >= 0) & (document < len(allowed)))
    rows = rows[allowed[document[rows]]]
    away = np.bitwise_count(codes[rows] ^ query).sum(axis=1)
    return np.sort(rows[np.argsort(away, kind="stable")[:most]])
