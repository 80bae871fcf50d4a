"""Relations between memories."""

from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

TYPES = ["supersedes", "extends", "derives", "contradicts", "related"]


def pair(api: Api, name: str) -> tuple[str, str]:
    """Two memories."""
    first, second = (api.remember(f"{word}{name} {word}", project=name)["id"] for word in ("heron", "fox"))
    return first, second


def relate(api: Api, first: str, second: str, kind: str = "related", **fields: Any) -> Json:
    return ok(api.post("relations", sourceId=first, targetId=second, type=kind, **fields), 201)


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/relations")
@pytest.mark.parametrize("kind", TYPES)
def test_a_relation_is_answered_whole_and_flat_and_listed(api: Api, name: str, kind: str):
    first, second = pair(api, name)
    answer = relate(api, first, second, kind, confidence=0.9)
    assert answer["success"] is True
    (listed,) = [row for row in ok(api.get("relations"))["relations"] if row["sourceId"] == first]
    for relation in (answer["relation"], listed):
        assert (relation["sourceId"], relation["targetId"], relation["type"]) == (first, second, kind)
        assert relation["confidence"] == 0.9
    assert answer["relationId"] == answer["id"]
    assert (answer["sourceId"], answer["targetId"], answer["type"]) == (first, second, kind)
    assert answer["createdAt"]


@pytest.mark.covers("POST /agentmemory/relations", "GET /agentmemory/memories/{id}", "GET /agentmemory/memories")
def test_related_memories_name_each_other_once(api: Api, name: str):
    first, second = pair(api, name)
    relate(api, first, second)
    rows = {row["id"]: row for row in api.memories(limit=5000)}
    assert (rows[first].get("relatedIds"), rows[second].get("relatedIds")) == ([second], [first])
    relate(api, first, second, "extends")
    for this, that in ((first, second), (second, first)):
        assert ok(api.get(f"memories/{this}"))["memory"]["relatedIds"] == [that]


@pytest.mark.covers("POST /agentmemory/relations")
@pytest.mark.parametrize(
    ("kind", "sent", "expected"),
    [
        *(("related", sent, expected) for sent, expected in ((0, 0), (1, 1), ("0.7", 0.7), (3, 1), (-1, 0))),
        *((kind, None, expected) for kind, expected in (("related", 0.6), ("extends", 0.6))),
        *((kind, None, expected) for kind, expected in (("supersedes", 0.7), ("contradicts", 0.55))),
    ],
)
def test_the_confidence_of_a_relation(api: Api, name: str, kind: str, sent: object, expected: float):
    """As sent, between 0 and 1; else half, a tenth more for both being young, and a little by the type."""
    fields = {} if sent is None else {"confidence": sent}
    confidence = relate(api, *pair(api, name), kind, **fields)["relation"]["confidence"]
    assert confidence == (pytest.approx(expected) if sent is None else expected)


@pytest.mark.covers("POST /agentmemory/relations")
def test_a_relation_names_both_ends_and_a_type_that_there_is(api: Api, name: str):
    first, second = pair(api, name)
    fields = {"sourceId": first, "targetId": second, "type": "related"}
    for missing in fields:
        refused(api.post("relations", **{key: value for key, value in fields.items() if key != missing}))
    refused(api.post("relations", **{**fields, "type": "likes"}))


@pytest.mark.covers("POST /agentmemory/relations")
def test_an_unknown_memory_is_not_related(api: Api, name: str):
    first, _ = pair(api, name)
    answer = api.post("relations", sourceId="mem_none", targetId=first, type="related")
    assert answer.json().get("success") is not True
    assert isinstance(answer.json()["error"], str)
    assert answer.status_code in (200, 400, 404)
