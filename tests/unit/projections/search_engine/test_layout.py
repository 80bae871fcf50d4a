import re

from hypothesis import given
from hypothesis import strategies as st

from ingest.log.position import Position
from projections.documents.index_entry import IndexEntry
from projections.search_engine.layout import (
    EMPTY,
    MAX_TERM,
    MAX_VALUE,
    PartitionIndex,
    decoded,
    encoded,
    encoded_term,
    encoded_terms,
    entry_of,
    fields_of,
    member_of,
    order_of,
    packed,
    state_of,
)

ENTRY = IndexEntry(
    id="mem_1", kind="memory", terms="red v1.2 grün", tenant="default", project="", agent_id="a b", user_id="",
    tags=["x,y", ""], occurred_ms=5, recorded_ms=6, retired_ms=7, episode="ses_1",
)  # fmt: skip


@given(st.text())
def test_a_tag_value_needs_no_escaping_and_can_be_read_again(value: str):
    written = encoded(value)
    assert re.fullmatch(r"[A-Za-z0-9_]{1,200}", written)
    assert written != "_"
    assert decoded(written) == value or (written.startswith("_h") and len(written) < 50)


@given(st.text(), st.text())
def test_different_values_are_written_differently(one: str, other: str):
    assert (encoded(one) == encoded(other)) == (one == other)


def test_the_empty_value_has_a_name():
    assert (encoded(""), decoded(EMPTY)) == (EMPTY, "")


def test_a_long_value_is_a_digest_that_does_not_tell():
    written = encoded("a" * (MAX_VALUE + 1))
    assert encoded("a" * MAX_VALUE) == "a" * MAX_VALUE
    assert written == encoded("a" * (MAX_VALUE + 1)) != encoded("a" * (MAX_VALUE + 2))
    assert decoded(written) is None


@given(st.text(min_size=1))
def test_a_term_is_one_word_of_letters_and_digits(term: str):
    written = encoded_term(term)
    assert written.replace("_", "a").isalnum()
    assert len(written.encode()) <= MAX_TERM


def test_terms_of_any_script_stay_readable():
    assert encoded_terms("red v1.2 grün 东京 a_b x-y") == "red v1_2e2 grün 东京 a_5fb x_2dy"


def test_a_document_has_the_fields_that_have_values():
    assert fields_of(3, ENTRY) == {
        "partition": "3", "tenant": "default", "project": EMPTY, "kind": "memory", "agent": "a_20b", "retired": "yes",
        "tag": f"x_2cy,{EMPTY}", "expiring": "no", "restricted": "no",
        "occurred": "5", "recorded": "6", "retired_at": "7", "importance": "5.0",
        "confidence": "1.0", "terms": "red v1_2e2 grün",
    }  # fmt: skip


def test_an_entry_is_read_as_it_was_packed_without_its_terms():
    stored = entry_of(packed(ENTRY))
    assert (stored.terms, stored.id, stored.tags, stored.retired_ms) == ("", "mem_1", ["x,y", ""], 7)


@given(*[st.tuples(st.integers(0, 10**13), st.integers(0, 10**6), st.integers(0, 5_000))] * 2)
def test_places_sort_as_the_log_does(one: tuple[int, int, int], other: tuple[int, int, int]):
    orders = [member_of(order_of(Position(*at[:2]), at[2]), "obs_1") for at in (one, other)]
    assert (orders[0] < orders[1]) == (one < other)


def test_all_keys_of_a_partition_are_in_one_slot():
    keys = PartitionIndex("mnemolog:search:index:7", 3)
    names = [keys.state, keys.document("obs_1"), keys.vectors("obs_1"), keys.episode("ses_{x}")]
    assert {re.findall(r"\{(.*?)\}", name)[0] for name in names} == {"p03"}


def test_a_hash_without_a_token_is_no_state():
    assert state_of({}) is None
    assert state_of({b"documents": b"1"}) is None
