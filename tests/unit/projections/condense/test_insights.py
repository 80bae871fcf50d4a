"""Several documents about one concept amount to something."""

from projections.condense.insights import INSIGHTS, PER_CLUSTER, Item, insights


def item(n: int, text: str, *concepts: str, confidence: float = 0.5) -> Item:
    return Item(f"mem_{n}", list(concepts), text, confidence)


TOKENS = [
    item(1, "The deploy token expires every night. Lunch is at noon.", "Token", "deploy", confidence=0.4),
    item(2, "The deploy token expires each night.", "token", "deploy", confidence=0.6),
    item(3, "Rotating the deploy token before the window avoids failures.", "token"),
]


def test_a_cluster_gives_an_overview_and_what_recurs():
    overview, recurring = insights(TOKENS)
    assert overview.content == (
        "token: The deploy token expires every night. Rotating the deploy token before the window avoids failures."
    )
    assert overview.sources == ["mem_1", "mem_3"]
    assert overview.confidence == 0.45
    assert overview.concepts == ["token", "deploy"]
    assert recurring.content == "The deploy token expires every night."
    assert recurring.sources == ["mem_1", "mem_2"]
    assert recurring.confidence == 0.64


def test_two_items_are_no_cluster():
    assert insights(TOKENS[:2]) == []


def test_the_same_conclusion_of_two_clusters_is_one_insight():
    both = [item(n, "The deploy token expires every night.", "token", "deploy") for n in range(3)]
    contents = [insight.content for insight in insights(both)]
    assert len(contents) == len(set(contents)) == 3


def test_clusters_are_the_largest_and_insights_bounded():
    many = [
        item(n, " ".join(f"Service{part} needs worker{part} on host{part}." for part in range(8)), f"c{n % 20}", "all")
        for n in range(80)
    ]
    (first, *_) = insights(many, max_clusters=1)
    assert first.concepts[0] == "all"
    assert len(insights(many, max_clusters=1)) == PER_CLUSTER
    assert len(insights(many, max_clusters=20)) <= INSIGHTS


def test_items_without_statements_give_nothing():
    assert insights([item(n, "Ok.", "token") for n in range(3)]) == []
