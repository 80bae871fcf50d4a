"""How alike two short texts are, and which of many can be alike at all.

A text's signature is its set of distinct tokens in one fixed order. Two sets whose Jaccard similarity exceeds a
threshold share a token among the first few of each (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma,
Srikant 2007), so an index from those few tokens to texts finds every match without scanning. Any order shared by both
sides is correct; long tokens come first, because they are rare without asking a corpus, and a stable hash breaks ties.
"""

import math
import zlib
from collections.abc import Collection

SUPERSEDE_ABOVE = 0.7
SIMILAR_ABOVE = 0.4

_MIN_TOKEN = 3


def signature(text: str) -> tuple[str, ...]:
    """Returns the distinct lower-cased tokens longer than two characters, in the order `probe_tokens` relies on.

    A text with none gives one token no other text can have, its normalised self behind a space; so two such texts
    are alike only if equal, and every signature has a probe token.
    """
    words = text.lower().split()
    tokens = {word for word in words if len(word) >= _MIN_TOKEN} or {" " + " ".join(words)}
    return tuple(sorted(tokens, key=_order))


def jaccard(left: Collection[str], right: Collection[str]) -> float:
    """Returns the shared part of two signatures' union, 0 to 1; 0 when both are empty."""
    shared = len(set(left).intersection(right))
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def similarity(left: str, right: str) -> float:
    """Returns the Jaccard similarity of two texts, 0 to 1."""
    return jaccard(signature(left), signature(right))


def probe_tokens(tokens: tuple[str, ...], threshold: float) -> tuple[str, ...]:
    """Returns the leading tokens of a signature, one of which any other with `jaccard > threshold` has in its own.

    Both sides must be cut at the same threshold, or the index side at a lower one: index once at `SIMILAR_ABOVE` and
    probe at either. The count is |x| - ceil(t|x|) + 1, one more than a strict comparison needs when t|x| is whole,
    which absorbs the rounding of t|x|.
    """
    return tokens[: len(tokens) - math.ceil(threshold * len(tokens)) + 1]


def _order(token: str) -> tuple[int, int, str]:
    return -len(token), zlib.crc32(token.encode("utf-8", "surrogatepass")), token
