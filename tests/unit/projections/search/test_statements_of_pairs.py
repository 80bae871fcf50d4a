"""How many distinct facts would be merged, and how many restatements are merged or at least reported as similar."""

from collections import Counter

from facts import Pair, distinct_pairs, restatements

from projections.search.similarity import SUPERSEDE_ABOVE, differ_in_facts, similarity, states_the_same


def is_merged_by_words(pair: Pair) -> bool:
    """As agentmemory's API does."""
    alike = similarity(pair.one, pair.other) > SUPERSEDE_ABOVE and not differ_in_facts(pair.one, pair.other)
    return alike or states_the_same(pair.one, pair.other)


def test_of_500_pairs_of_distinct_facts_none_is_merged():
    pairs = list(distinct_pairs())
    assert len({*pairs}) > 400
    assert Counter(pair.language for pair in pairs).keys() == {"en", "de", "es", "fr", "zh"}
    assert [pair for pair in pairs if states_the_same(pair.one, pair.other)] == []
    assert [pair for pair in pairs if is_merged_by_words(pair)] == []


def test_most_of_200_restatements_are_merged_or_reported():
    pairs = list(restatements())
    merged = [pair for pair in pairs if states_the_same(pair.one, pair.other)]
    reported = [pair for pair in pairs if pair in merged or similarity(pair.one, pair.other) > SUPERSEDE_ABOVE]
    assert len(merged) >= 0.7 * len(pairs), Counter((one.language, one.how) for one in pairs if one not in merged)
    assert len(reported) >= 0.95 * len(pairs), [one for one in pairs if one not in reported]
