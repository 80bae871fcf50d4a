"""memex's summariser: many episodic memories in at most five of their own sentences.

Guarantee: the text memex's own function gives, sentence for sentence, tie for tie. When to run it and what to retire is
the caller's business: more than `THRESHOLD` episodic memories of a pair, the `BATCH` oldest of them.
"""

import re
from collections.abc import Sequence

from projections.compression.sentences import ALIKE, best, centrality, distinct, pieces

THRESHOLD = 100
"""Episodic memories of an agent and user that need no summary; one more does (memex's default)."""
BATCH = 50
"""The oldest memories condensed at a time (memex's default)."""
MAX_SENTENCES = 5
_SHORT_PIECE = 20
"""Characters; a piece no longer than this is no sentence."""
_FALLBACK_MEMORIES = 5
"""Joined as they are when no memory has a sentence."""

_WORD = re.compile(r"\b[a-zA-Z]{3,}\b")


def summarise(texts: Sequence[str], max_sentences: int = MAX_SENTENCES) -> str:
    """Returns the most central sentences of the memories, in their order, joined by spaces.

    When no memory has a sentence longer than 20 characters it is the first five memories themselves, joined by ". ".
    """
    sentences = [piece for text in texts for piece in pieces(text) if len(piece) > _SHORT_PIECE]
    if not sentences:
        return ". ".join(texts[:_FALLBACK_MEMORIES])
    words = [[word.lower() for word in _WORD.findall(sentence)] for sentence in sentences]
    kept = distinct([frozenset(one) for one in words], ALIKE)
    if len(kept) > max_sentences:
        kept = [kept[place] for place in best(centrality([words[index] for index in kept]), max_sentences)]
    return " ".join(sentences[index] for index in kept)


def summary_text(count: int, summary: str) -> str:
    """Returns the content of the memory that stands for `count` others; see `documents.memories.without_prefix`."""
    return f"[Summary of {count} memories] {summary}"
