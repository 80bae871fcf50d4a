"""Several documents about one concept amount to something."""

import pytest

from projections.condensing.insights import INSIGHTS, PER_CLUSTER, Item, insights


def item(n: int, text: str, *concepts: str, confidence: float = 0.5, origin: str = "") -> Item:
    return Item(f"mem_{n}", list(concepts), text, confidence, origin)


TOKENS = [
    item(1, "The deploy token expires every night. Lunch is at noon.", "Token", "deploy", confidence=0.4),
    item(2, "The deploy token expires each night.", "token", "deploy", confidence=0.6),
    item(3, "Rotating the deploy token before the window avoids failures.", "token"),
]


def test_a_cluster_gives_what_recurs():
    (recurring,) = insights(TOKENS)
    assert recurring.content == "The deploy token expires every night."
    assert recurring.sources == ["mem_1", "mem_2"]
    assert recurring.confidence == 0.64


def test_a_cluster_in_which_nothing_recurs_gives_an_overview():
    (overview,) = insights([TOKENS[0], TOKENS[2], item(4, "A new token is valid for one day.", "token")])
    assert overview.content.startswith("token: ")
    assert set(overview.sources) == {"mem_1", "mem_3", "mem_4"}
    assert overview.confidence == 0.467


def test_an_overview_is_of_what_says_its_topic():
    said = ["The tenant is set in each transaction.", "Nulls are a category.", "The clock is frozen in all tests."]
    items = [item(n, text, "decision", f"area{n}") for n, text in enumerate(said)]
    assert insights(items) == []
    (overview,) = insights([*items, item(7, "A decision is kept for a year.", "decision"), DECISIONS])
    assert overview.content == "decision: A decision is kept for a year. Every decision names who took it."
    assert overview.sources == ["mem_7", "mem_8"]


DECISIONS = item(8, "Every decision names who took it.", "decision")


def test_an_insight_has_no_tag_that_is_a_tool_a_key_or_a_path():
    said = [item(n, "The deploy token expires every night.", "token", "Edit", "file_path", "a.py") for n in range(3)]
    assert insights(said)[0].concepts == ["token"]


def test_what_one_session_says_often_is_no_insight():
    said = [item(n, "The deploy token expires every night.", "token", origin="s1") for n in range(5)]
    assert insights(said) == []
    assert (
        insights([*said, item(9, "The deploy token expires every night.", "token", origin="s2")])[0].confidence == 0.55
    )


@pytest.mark.parametrize(
    "tag",
    ["fact", "consolidated", "crystal", "procedure", "src/pool.py", "Edit", "file_path", "created_at", "PoolError"],
)
def test_tags_of_the_server_tools_keys_paths_and_code_make_no_cluster(tag: str):
    assert insights([item(n, "The deploy token expires every night.", tag) for n in range(4)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Edit `.../exceptions.py`.",
        "Bash",
        "src/app/exceptions.py",
        "tool_response_preview",
        "Authentication module overview document",
        "Next, I will open the file with the exceptions.",
        "0 0 0 0 0 0 --:--:-- --:--:--",
        "Bash `pytest -q`: exceptions failed",
        "It is about exceptions.",
    ],
)
def test_what_is_no_statement_is_no_insight(text: str):
    assert insights([item(n, text, "exceptions") for n in range(5)]) == []


def test_items_that_contradict_each_other_do_not_agree():
    said = ["The lease must be shared by workers.", "The lease must not be shared by workers."]
    found = insights([item(n, said[n % 2], "lease", origin=f"s{n % 2}") for n in range(4)])
    assert not any(len(one.sources) > 1 and not one.content.startswith("lease: ") for one in found)


def test_what_is_said_of_a_thing_by_one_each_is_not_agreed():
    said = ["The cache is cleared by a deploy.", "The cache is filled by a deploy.", "A cache lasts a day."]
    found = insights([item(n, text, "cache", origin=f"s{n}") for n, text in enumerate(said)])
    assert all(one.content.startswith("cache: ") for one in found)


def test_nearly_the_same_conclusion_of_two_clusters_is_one_insight():
    said = [item(n, "The deploy token expires every night.", "token") for n in range(3)]
    said += [item(n, "Every night the deploy token expires there.", "deploy") for n in range(3, 6)]
    assert len(insights(said)) == 1


def test_two_items_are_no_cluster():
    assert insights(TOKENS[:2]) == []


def test_the_same_conclusion_of_two_clusters_is_one_insight():
    both = [item(n, "The deploy token expires every night.", "token", "deploy") for n in range(3)]
    contents = [insight.content for insight in insights(both)]
    assert contents == ["The deploy token expires every night."]


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
