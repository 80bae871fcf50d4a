"""What recall makes of hits that probably say the same."""

from typing import Any

from factories import NOW, TENANT

from ingest.ids import DocumentId
from projections.documents.memories import Memory
from projections.queries.recall import folded
from projections.search.question import Hit

SAME = "Backups of the staging database are encrypted at rest."
DENIED = "Backups of the staging database are not encrypted at rest."


def memory(name: str, content: str) -> Memory:
    times: Any = dict.fromkeys(("recorded_at", "occurred_at", "updated_at"), NOW)
    return Memory(id=DocumentId(name), event_id=name, tenant=TENANT, content=content, position="1-0", **times)


def hit(name: str, score: float, *repeats: Hit) -> Hit:
    return Hit(id=name, partition=0, kind="memory", score=score, explain={}, repeats=repeats, terms=["backup"])


def told(searched: list[Hit], **contents: str) -> list[tuple[str, list[str]]]:
    known = {name: memory(name, content) for name, content in contents.items()}
    return [(one.hit.id, one.repeats) for one in folded(searched, known)]


SEARCHED = [hit("mem_1", 0.9, hit("mem_2", 0.8), hit("mem_3", 0.5)), hit("mem_4", 0.7)]


def test_what_says_the_same_is_told_with_the_better_one():
    assert told(SEARCHED, mem_1=SAME, mem_2=SAME, mem_3=SAME, mem_4="Else.") == [
        ("mem_1", ["mem_2", "mem_3"]), ("mem_4", []),
    ]  # fmt: skip


def test_what_denies_it_is_a_result_of_its_own_in_the_order_of_scores():
    assert told(SEARCHED, mem_1=SAME, mem_2=DENIED, mem_3=SAME, mem_4="Else.") == [
        ("mem_1", ["mem_3"]), ("mem_2", []), ("mem_4", []),
    ]  # fmt: skip


def test_where_the_best_is_gone_the_next_one_that_is_there_stands_for_the_others():
    assert told(SEARCHED, mem_2=SAME, mem_3=SAME, mem_4="Else.") == [("mem_2", ["mem_3"]), ("mem_4", [])]


def test_what_the_reader_may_not_see_is_not_named():
    assert told(SEARCHED, mem_1=SAME, mem_4="Else.") == [("mem_1", []), ("mem_4", [])]
