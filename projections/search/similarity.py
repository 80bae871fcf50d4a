"""How alike two short texts are, and which of many can be alike at all.

A text's signature is its set of distinct tokens in one fixed order. Two sets whose Jaccard similarity exceeds a
threshold share a token among the first few of each (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma,
Srikant 2007), and two tokens among one more (Wang, Li, Feng 2012), so an index from those few tokens, or pairs of
them, to texts finds every match without scanning. Any order shared by both sides is correct; long tokens come first,
because they are rare without asking a corpus, and a stable hash breaks ties.

One token is not enough where many texts are about the same things: in 100,000 memories of one project a thousand say
"configuration". Hardly any two say two such words by chance, so short texts are looked for by pairs; long ones, which
would have too many pairs, by single tokens.
"""

import math
import re
import zlib
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from projections.search.statements import UNSPACED

SUPERSEDE_ABOVE = 0.7
SIMILAR_ABOVE = 0.4
PAIRS_UP_TO = 24
"""Tokens of a text that is looked for by pairs: at most 36 of them; one filed under pairs has at most 34 tokens."""
REMEMBERED = 1_024
SHORT = 2_000
"""Characters of a text whose keys and tokens are remembered: a fold asks for them several times. At most 12 MB."""

_MIN_TOKEN = 3
_PARTS = re.compile(rf"(?=([{UNSPACED}]{{2}}))|([^{UNSPACED}]{{{_MIN_TOKEN},}})")
"""Pairs of characters that follow each other in a script without spaces, and what is between such characters."""


def signature(text: str) -> tuple[str, ...]:
    """Returns the distinct lower-cased tokens longer than two characters, in the order `probe_tokens` relies on; of
    scripts without spaces the pairs of characters.

    A text with none gives one token no other text can have, its normalised self behind a space; so two such texts
    are alike only if equal, and every signature has a probe token.
    """
    return tuple(sorted(_tokens(text), key=_order))


def tokens_of(text: str) -> frozenset[str]:
    """Returns the tokens of a signature in no order; those of the last REMEMBERED short texts are remembered."""
    return _remembered_tokens(text) if len(text) <= SHORT else _tokens(text)


@lru_cache(maxsize=REMEMBERED)
def _remembered_tokens(text: str) -> frozenset[str]:
    return _tokens(text)


def _tokens(text: str) -> frozenset[str]:
    words = text.lower().split()
    found = {word for word in words if len(word) >= _MIN_TOKEN}
    if not text.isascii():
        found = {pair or run for word in found for pair, run in _PARTS.findall(word)}
    return frozenset(found) or frozenset({" " + " ".join(words)})


def jaccard(left: Collection[str], right: Collection[str]) -> float:
    """Returns the shared part of two texts' distinct tokens, 0 to 1; 0 when both are empty."""
    shared = len(frozenset(left).intersection(right))
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def similarity(left: str, right: str) -> float:
    """Returns the Jaccard similarity of two texts, 0 to 1."""
    return jaccard(tokens_of(left), tokens_of(right))


def probe_tokens(tokens: tuple[str, ...], threshold: float) -> tuple[str, ...]:
    """Returns the leading tokens of a signature, one of which any other with `jaccard > threshold` has in its own.

    Both sides must be cut at the same threshold, or the index side at a lower one: index once at `SIMILAR_ABOVE` and
    probe at either. The count is |x| - ceil(t|x|) + 1, one more than a strict comparison needs when t|x| is whole,
    which absorbs the rounding of t|x|.
    """
    return _leading(tokens, threshold, 1)


class Keys(NamedTuple):
    """Under which keys a signature is filed, and under which others above SUPERSEDE_ABOVE are looked for.

    Keys are 16 hex digits, made of checksums: two pairs may share one (the texts are compared in any case), and they
    say nothing of a text that is forgotten, however long its words were. `sketch` has one of 64 bits for each of the
    `size` tokens, so that most of what only shares a key is told apart without its text.
    """

    filed: tuple[str, ...]
    probe: tuple[str, ...]
    sketch: int
    size: int

    def matching(self) -> Callable[[int], bool]:
        """Tells of a text's sketch whether that may be above the threshold: False only when it is not.

        Each bit that only one side has is a token that the other lacks; of n tokens n - ceil(tn) may be lacking, and
        the other text has n / t tokens at most.
        """
        own = self.sketch
        lacking = self.size - math.ceil(SUPERSEDE_ABOVE * self.size)
        most = (1 - SUPERSEDE_ABOVE) * self.size / SUPERSEDE_ABOVE + 1  # one for the rounding
        return lambda other: (own & ~other).bit_count() <= lacking and (other & ~own).bit_count() <= most


def keys(tokens: tuple[str, ...]) -> Keys:
    """Returns the keys of a signature: `probe` of one always meets `filed` of another one above the threshold."""
    smallest, biggest = SUPERSEDE_ABOVE * len(tokens), len(tokens) / SUPERSEDE_ABOVE  # of those it may resemble
    pairs = _pair_keys(tokens) if smallest <= PAIRS_UP_TO else ()
    singles = _token_keys(tokens) if biggest > PAIRS_UP_TO else ()
    sketch = sum({1 << (_checksum(token) & 63) for token in tokens})
    return Keys(pairs + singles, pairs if len(tokens) <= PAIRS_UP_TO else singles, sketch, len(tokens))


def keys_of(text: str) -> Keys:
    """Returns `keys(signature(text))`; those of the last REMEMBERED short texts are remembered."""
    return _remembered_keys(text) if len(text) <= SHORT else keys(signature(text))


@lru_cache(maxsize=REMEMBERED)
def _remembered_keys(text: str) -> Keys:
    return keys(signature(text))


def _pair_keys(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """One key for each pair of leading tokens; a signature of one token has that twice for a pair."""
    if len(tokens) == 1:
        tokens *= 2
    checksums = [_checksum(token) for token in _leading(tokens, SUPERSEDE_ABOVE, 2)]
    return tuple(f"{first << 32 | second:016x}" for first, second in combinations(checksums, 2))


def _token_keys(tokens: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{_checksum(token):016x}" for token in probe_tokens(tokens, SUPERSEDE_ABOVE))


def _leading(tokens: tuple[str, ...], threshold: float, shared: int) -> tuple[str, ...]:
    """The leading tokens of which any other signature above the threshold has `shared` among its own."""
    return tokens[: len(tokens) - math.ceil(threshold * len(tokens)) + shared]


def _checksum(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "surrogatepass"))


def _order(token: str) -> tuple[int, int, str]:
    return -len(token), _checksum(token), token
