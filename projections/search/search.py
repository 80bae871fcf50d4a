"""One search of the index: filter, then the ranking that the question names. Runs in the index thread; never waits."""

from projections.search.fused import fused
from projections.search.matching import Filter, matches
from projections.search.question import Hit, Question
from projections.search.replica import IndexReplica
from projections.search.rrf import rrf
from projections.search.similar import similar

__all__ = ["Filter", "Hit", "Question", "matches", "search"]

_RANKINGS = {"fused": fused, "similarity": similar, "rrf": rrf}


def search(index: IndexReplica, question: Question, allowed: Filter) -> list[Hit]:
    """The best documents for a question, best first, at most `limit`; of equal scores the smallest id first."""
    matching = matches(index, allowed, question.now_ms)
    return _RANKINGS[question.ranking](index, question, allowed, matching)
