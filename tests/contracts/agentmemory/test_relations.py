"""Relations between memories."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

TYPES = ["supersedes", "extends", "derives", "contradicts", "related"]


def pair(api: Api, name: str) -> tuple[str, str]:
    """Two memories."""
    first, second = (api.remember(f"{word}{name} {word}", project=name)["id"] for word in ("heron", "fox"))
    return first, second


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize("kind", TYPES)
def test_a_relation_is_answered_whole_and_flat(api: Api, name: str, kind: str):
    first, second = pair(api, name)
    answer = ok(api.post("relations", sourceId=first, targetId=second, type=kind, confidence=0.9), 201)
    assert answer["success"] is True
    relation = answer["relation"]
    assert (relation["sourceId"], relation["targetId"], relation["type"]) == (first, second, kind)
    assert relation["confidence"] == 0.9
    assert answer["relationId"] == answer["id"]
    assert (answer["sourceId"], answer["targetId"], answer["type"]) == (first, second, kind)
    assert answer["createdAt"]


@pytest.mark.covers("GET /agentmemory/relations")
def test_relations_are_listed(api: Api, name: str):
    first, second = pair(api, name)
    ok(api.post("relations", sourceId=first, targetId=second, type="extends", confidence=0.9), 201)
    (result,) = [row for row in ok(api.get("relations"))["relations"] if row["sourceId"] == first]
    assert (result["targetId"], result["type"], result["confidence"]) == (second, "extends", 0.9)


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/memories/{id}")
def test_related_memories_name_each_other_once(api: Api, name: str):
    first, second = pair(api, name)
    for kind in ("extends", "related"):
        ok(api.post("relations", sourceId=first, targetId=second, type=kind), 201)
    for this, that in ((first, second), (second, first)):
        assert ok(api.get(f"memories/{this}"))["memory"]["relatedIds"] == [that]


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/memories")
def test_listed_memories_name_those_they_are_related_to(api: Api, name: str):
    first, second = pair(api, name)
    ok(api.post("relations", sourceId=first, targetId=second, type="related"), 201)
    fields = {row["id"]: row for row in api.memories(limit=5000)}
    assert (fields[first].get("relatedIds"), fields[second].get("relatedIds")) == ([second], [first])


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"confidence": 0}, 0),
        ({"confidence": 1}, 1),
        ({"confidence": "0.7"}, 0.7),
        ({"confidence": 3}, 1),
        ({"confidence": -1}, 0),
    ],
)
def test_a_confidence_is_between_nothing_and_one(api: Api, name: str, text: Json, expected: float):
    first, second = pair(api, name)
    answer = ok(api.post("relations", sourceId=first, targetId=second, type="related", **text), 201)
    assert answer["relation"]["confidence"] == expected


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize(
    ("kind", "confidence"), [("related", 0.6), ("extends", 0.6), ("supersedes", 0.7), ("contradicts", 0.55)]
)
def test_the_confidence_of_new_memories_follows_from_the_type(api: Api, name: str, kind: str, confidence: float):
    """Half, a tenth more for both being young; a little more or less for what is said."""
    first, second = pair(api, name)
    answer = ok(api.post("relations", sourceId=first, targetId=second, type=kind), 201)
    assert answer["relation"]["confidence"] == pytest.approx(confidence)


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize("missing", ["sourceId", "targetId", "type"])
def test_a_relation_names_both_ends_and_its_type(api: Api, name: str, missing: str):
    first, second = pair(api, name)
    fields = {"sourceId": first, "targetId": second, "type": "related"}
    del fields[missing]
    refused(api.post("relations", **fields))


@pytest.mark.covers("POST /agentmemory/relations")
def test_a_type_nobody_knows_is_refused(api: Api, name: str):
    first, second = pair(api, name)
    refused(api.post("relations", sourceId=first, targetId=second, type="likes"))


@pytest.mark.covers("POST /agentmemory/relations")
def test_an_unknown_memory_is_not_related(api: Api, name: str):
    first, _ = pair(api, name)
    answer = api.post("relations", sourceId="mem_none", targetId=first, type="related")
    assert answer.json().get("success") is not True
    assert isinstance(answer.json()["error"], str)
    assert answer.status_code in (200, 400, 404)
