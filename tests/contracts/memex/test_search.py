"""Searching memories over REST: the score and the order."""

import pytest

from tests.contracts.memex.conftest import Rest
from tests.support.waiting import wait_until

PATIENT_S = 60


async def score(rest: Rest, agent: str, query: str, alpha: float | None) -> float:
    (result,) = await rest.search(agent, query, **({} if alpha is None else {"alpha": alpha}))
    return result["score"]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_score_is_mixed_of_similarity_and_recency(rest: Rest, name: str):
    """A fresh memory's recency is 1; its similarity is what alpha 1 says, once it does not change any more."""
    await rest.store(name, "Grace likes to drink oolong from a red kettle.")
    query = "which kettle does she use for tea?"
    scores: list[float] = []

    async def steady() -> bool:
        scores[:] = [await score(rest, name, query, alpha) for alpha in (1.0, 0.7, None, 0.25, 0.0, 1.0)]
        return scores[0] == scores[-1]

    await wait_until(steady, PATIENT_S)
    similarity = scores[0]
    assert -1 <= similarity < 1
    assert scores[4] == 1.0
    for alpha, given in ((0.7, scores[1]), (0.7, scores[2]), (0.25, scores[3])):
        assert given == pytest.approx(alpha * similarity + (1 - alpha), abs=1.01e-4)
    assert all(round(score, 4) == score for score in scores)


@pytest.mark.covers("POST /v1/memories/search")
async def test_the_most_similar_comes_first(rest: Rest, name: str):
    other = await rest.store(name, "The train leaves at noon.")
    best = await rest.store(name, "The kettle is red.")
    await rest.store(name, "Postgres pools have twenty connections.")
    results = await rest.search(name, "The kettle is red.", alpha=1.0)
    assert results[0]["id"] == best["id"]
    assert [result["score"] for result in results] == sorted((result["score"] for result in results), reverse=True)
    assert other["id"] in [result["id"] for result in results]


@pytest.mark.covers("POST /v1/memories/search")
async def test_weak_matches_are_returned(rest: Rest, name: str):
    for number in range(4):
        await rest.store(name, f"Train {number} leaves at noon.")
    assert len(await rest.search(name, "quantum chromodynamics")) == 4


@pytest.mark.covers("POST /v1/memories/search")
async def test_ten_are_returned_unless_top_k_says_otherwise(rest: Rest, name: str):
    for number in range(12):
        await rest.store(name, f"Kettle {number}.")
    assert len(await rest.search(name, "kettle")) == 10
    for top_k, number in ((1, 1), (11, 11), (50, 12)):
        assert len(await rest.search(name, "kettle", top_k=top_k)) == number


@pytest.mark.covers("POST /v1/memories/search")
async def test_alpha_0_takes_the_newest_of_the_candidates_alone(rest: Rest, name: str):
    """The candidates for one result are the three most similar; what is newer but less similar is none.

    For a moment what has no vector yet stands beside them.
    """
    similar = [await rest.store(name, "The kettle is red.") for _ in range(3)]
    for text in ("Trains leave at noon.", "Postgres pools are small.", "Nobody came yesterday."):
        await rest.store(name, text)

    async def newest_of_the_similar() -> bool:
        (result,) = await rest.search(name, "The kettle is red.", alpha=0.0, top_k=1)
        return (result["id"], result["score"]) == (similar[-1]["id"], 1.0)

    await wait_until(newest_of_the_similar, PATIENT_S)


@pytest.mark.covers("POST /v1/memories/search")
async def test_importance_does_not_rank(rest: Rest, name: str):
    """Of equal texts the newer comes first, whatever they weigh."""
    older = await rest.store(name, "The kettle is red.", importance=2.0)
    newer = await rest.store(name, "The kettle is red.", importance=0.0)

    async def embedded() -> bool:
        first, second = await rest.search(name, "kettle", alpha=1.0)
        return first["score"] == second["score"]

    await wait_until(embedded, PATIENT_S)
    results = await rest.search(name, "kettle", alpha=0.0)
    assert [result["id"] for result in results] == [newer["id"], older["id"]]
    assert [result["importance"] for result in results] == [0.0, 2.0]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_search_may_be_for_one_type(rest: Rest, name: str):
    made = {
        kind: (await rest.store(name, "The kettle is red.", memory_type=kind))["id"]
        for kind in ("episodic", "semantic", "procedural")
    }
    for kind, memory in made.items():
        results = await rest.search(name, "kettle", memory_type=kind)
        assert [(result["id"], result["memory_type"]) for result in results] == [(memory, kind)]
    assert {result["id"] for result in await rest.search(name, "kettle", memory_type=None)} == set(made.values())


@pytest.mark.covers("POST /v1/memories/search")
async def test_the_type_is_filtered_before_candidates_are_taken(rest: Rest, name: str):
    made = await rest.store(name, "Trains leave at noon.", memory_type="procedural")
    for _ in range(5):
        await rest.store(name, "The kettle is red.")
    results = await rest.search(name, "The kettle is red.", top_k=1, memory_type="procedural")
    assert [result["id"] for result in results] == [made["id"]]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_search_of_nothing_finds_nothing(rest: Rest, name: str):
    assert await rest.search(name, "kettle") == []
