"""Relations between memories."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

TYPES = ["supersedes", "extends", "derives", "contradicts", "related"]


def pair(api: Api, name: str) -> tuple[str, str]:
    """Two memories."""
    one, two = (api.remember(f"{word}{name} {word}", project=name)["id"] for word in ("heron", "fox"))
    return one, two


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize("kind", TYPES)
def test_a_relation_is_answered_whole_and_flat(api: Api, name: str, kind: str):
    one, two = pair(api, name)
    told = ok(api.post("relations", sourceId=one, targetId=two, type=kind, confidence=0.9), 201)
    assert told["success"] is True
    relation = told["relation"]
    assert (relation["sourceId"], relation["targetId"], relation["type"]) == (one, two, kind)
    assert relation["confidence"] == 0.9
    assert told["relationId"] == told["id"]
    assert (told["sourceId"], told["targetId"], told["type"]) == (one, two, kind)
    assert told["createdAt"]


@pytest.mark.covers("GET /agentmemory/relations")
def test_relations_are_listed(api: Api, name: str):
    one, two = pair(api, name)
    ok(api.post("relations", sourceId=one, targetId=two, type="extends", confidence=0.9), 201)
    (found,) = [row for row in ok(api.get("relations"))["relations"] if row["sourceId"] == one]
    assert (found["targetId"], found["type"], found["confidence"]) == (two, "extends", 0.9)


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/memories/{id}")
def test_related_memories_name_each_other_once(api: Api, name: str):
    one, two = pair(api, name)
    for kind in ("extends", "related"):
        ok(api.post("relations", sourceId=one, targetId=two, type=kind), 201)
    for this, that in ((one, two), (two, one)):
        assert ok(api.get(f"memories/{this}"))["memory"]["relatedIds"] == [that]


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/memories")
def test_listed_memories_name_those_they_are_related_to(api: Api, name: str):
    one, two = pair(api, name)
    ok(api.post("relations", sourceId=one, targetId=two, type="related"), 201)
    known = {row["id"]: row for row in api.memories(limit=5000)}
    assert (known[one].get("relatedIds"), known[two].get("relatedIds")) == ([two], [one])


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"confidence": 0}, 0),
        ({"confidence": 1}, 1),
        ({"confidence": "0.7"}, 0.7),
        ({"confidence": 3}, 1),
        ({"confidence": -1}, 0),
    ],
)
def test_a_confidence_is_between_nothing_and_one(api: Api, name: str, said: Json, kept: float):
    one, two = pair(api, name)
    told = ok(api.post("relations", sourceId=one, targetId=two, type="related", **said), 201)
    assert told["relation"]["confidence"] == kept


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize(
    ("kind", "confidence"), [("related", 0.6), ("extends", 0.6), ("supersedes", 0.7), ("contradicts", 0.55)]
)
def test_the_confidence_of_new_memories_follows_from_the_type(api: Api, name: str, kind: str, confidence: float):
    """Half, a tenth more for both being young; a little more or less for what is said."""
    one, two = pair(api, name)
    told = ok(api.post("relations", sourceId=one, targetId=two, type=kind), 201)
    assert told["relation"]["confidence"] == pytest.approx(confidence)


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize("missing", ["sourceId", "targetId", "type"])
def test_a_relation_names_both_ends_and_its_type(api: Api, name: str, missing: str):
    one, two = pair(api, name)
    said = {"sourceId": one, "targetId": two, "type": "related"}
    del said[missing]
    refused(api.post("relations", **said))


@pytest.mark.covers("POST /agentmemory/relations")
def test_a_type_nobody_knows_is_refused(api: Api, name: str):
    one, two = pair(api, name)
    refused(api.post("relations", sourceId=one, targetId=two, type="likes"))


@pytest.mark.covers("POST /agentmemory/relations")
def test_an_unknown_memory_is_not_related(api: Api, name: str):
    one, _ = pair(api, name)
    answer = api.post("relations", sourceId="mem_none", targetId=one, type="related")
    assert answer.json().get("success") is not True
    assert isinstance(answer.json()["error"], str)
    assert answer.status_code in (200, 400, 404)
