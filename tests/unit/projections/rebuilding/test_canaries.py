"""Comparing what two generations answered."""

from typing import Any

import pytest

from ingest.ids import DocumentId
from projections.documents.document import Document, encode
from projections.documents.sessions import Commit
from projections.documents.tombstones import Tombstone
from projections.rebuilding.canaries import (
    LISTED,
    Answers,
    Difference,
    ListingAnswer,
    RecallProbe,
    differences,
    recall_verdict,
    verdict,
    without_newer,
)

GONE = Tombstone(id=DocumentId("mem_1"), position="1-0")


def answers(document: Document | None = GONE, count: int = 2, newest: tuple[bytes, ...] = (b"b", b"a")) -> Answers:
    return Answers({"mem_1": document}, {"memories": ListingAnswer(count, newest)})


def said(candidate: Answers, live: Answers | None = None) -> list[tuple[str, str, str]]:
    return [(one.what, one.name, one.said) for one in differences(3, live or answers(), candidate)]


def test_equal_answers_agree():
    assert said(answers()) == []
    assert verdict(10, []).agree
    assert verdict(10, []).said == "all 10 canaries agree"


def test_a_document_differs_when_it_is_missing_new_or_says_something_else():
    assert said(answers(None)) == [("document", "mem_1", "not in what was rebuilt")]
    assert said(answers(), answers(None)) == [("document", "mem_1", "only in what was rebuilt")]
    other = Tombstone(id=DocumentId("mem_1"), position="2-0", memory_version=3)
    assert said(answers(other)) == [("document", "mem_1", "other memory_version, position")]


def commit(**fields: Any) -> Commit:
    """A commit, linked a minute after it happened unless told otherwise."""
    given: dict[str, Any] = {
        "id": DocumentId("cmt_1"),
        "tenant": "default",
        "commit": "a",
        "occurred_ms": 1,
        "linked_ms": 60_001,
        "position": "2-0",
    }
    return Commit(**{**given, **fields})


def of(document: Commit) -> Answers:
    return Answers({"cmt_1": document}, {})


def test_a_field_that_is_newer_than_the_live_document_is_named_and_not_compared():
    old = commit(occurred_ms=0)
    rebuilt, newer = without_newer(of(old), of(commit()), {"cmt_1": encode(old)})
    assert said(rebuilt, of(old)) == []
    assert newer == {"cmt.occurred_ms"}
    told = verdict(10, [], newer)
    assert told.agree
    assert told.said == (
        "all 10 canaries agree; not compared, because the documents that are read now are older: cmt.occurred_ms"
    )


@pytest.mark.parametrize(
    ("live", "rebuilt", "told"),
    [
        (commit(occurred_ms=0), commit(message="other"), "other message"),
        (commit(), commit(occurred_ms=0), "other occurred_ms"),
        (commit(message="said"), commit(), "other message"),
        (commit(), commit(branch="main"), "other branch"),
    ],
)
def test_other_fields_are_compared_also_where_the_live_document_has_the_default(
    live: Commit, rebuilt: Commit, told: str
):
    compared, _ = without_newer(of(live), of(rebuilt), {"cmt_1": encode(live)})
    assert said(compared, of(live)) == [("document", "cmt_1", told)]


def test_a_listing_differs_in_how_many_it_has_or_in_the_newest():
    assert said(answers(count=3)) == [("listing", "memories", "2 members, 3 in what was rebuilt")]
    assert said(answers(newest=(b"a", b"b"))) == [("listing", "memories", "other members, or in another order")]


def test_every_difference_counts_and_the_first_are_listed():
    found = [Difference(partition=n, what="document", name=f"mem_{n}", said="missing") for n in range(LISTED + 5)]
    seen = verdict(100, found)
    assert (seen.agree, seen.differing, len(seen.differences)) == (False, LISTED + 5, LISTED)
    assert seen.said == f"{LISTED + 5} of 100 canaries differ"


def sought(n: int, *, words: int, live: int, candidate: int, overlap: float = 0.5) -> list[RecallProbe]:
    """So many documents, the first of which are found."""
    return [
        RecallProbe(
            name=f"mem_{k}", partition=0, words=k < words, live=k < live, candidate=k < candidate, overlap=overlap
        )
        for k in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "live", "candidate", "agree"),
    [
        (50, 48, 48, True),
        (50, 48, 43, True),
        (50, 48, 42, False),
        (50, 0, 25, True),
        (50, 0, 24, False),
        (12, 10, 6, True),
        (0, 0, 0, True),
    ],
    ids=["alike", "a-tenth-less", "less", "first-vectors", "vectors-of-nothing", "repetitive", "nothing-to-find"],
)
def test_new_vectors_must_find_about_what_the_live_ones_find(words: int, live: int, candidate: int, *, agree: bool):
    found = recall_verdict(sought(50, words=words, live=live, candidate=candidate))
    assert found.agree is agree
    assert found.differing == max(0, live - candidate)
    assert found.said == (
        f"by meaning the new vectors find {candidate} of 50 documents among the first ten, the live ones {live}, "
        f"words {words}; overlap@10 0.50"
    )


def test_an_empty_log_has_nothing_to_be_found():
    assert recall_verdict([]).agree
