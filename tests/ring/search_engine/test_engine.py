import re

from hypothesis import given
from hypothesis import strategies as st

from ingest.log.position import Position
from projections.documents.index_entry import IndexEntry
from projections.search_engine.layout import (
    EMPTY,
    MAX_TERM,
    MAX_VALUE,
    Identity,
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
from projections.search_engine.schema import Catalogue, begun, create_arguments, dropped, switched, without
from projections.search_engine.service import Delay, delays

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


ONE = Identity(model="one", dimensions=4, vector_dimensions=4)
OTHER = Identity(model="other", dimensions=8, table="static-1", vector_dimensions=128)


def test_an_index_that_is_filled_takes_the_place_of_the_live_one_which_is_dropped_then():
    first = switched(begun(Catalogue(), ONE))
    assert (first.live and first.live.identity, first.filling, first.leaving) == (ONE, None, [])
    filling = begun(first, OTHER)
    assert filling.filled == [first.live, filling.filling]
    second = switched(filling)
    assert (second.live and second.live.identity, second.leaving) == (OTHER, [first.live and first.live.name])
    assert dropped(second, second.leaving[0]).leaving == []


def test_an_index_that_nobody_waits_for_any_more_is_dropped():
    filling = begun(Catalogue(), ONE)
    again = begun(filling, OTHER)
    assert (again.live, again.leaving) == (None, [filling.filling and filling.filling.name])


def test_no_name_is_used_twice():
    catalogue = begun(Catalogue(), ONE)
    names = {catalogue.filling and catalogue.filling.name}
    catalogue = begun(dropped(without(catalogue, "mnemolog:search:index:1"), "mnemolog:search:index:1"), ONE)
    names.add(catalogue.filling and catalogue.filling.name)
    assert len(names) == 2


def test_a_damaged_index_is_used_no_more():
    live = switched(begun(Catalogue(), ONE))
    assert live.live is not None
    lost = without(live, live.live.name)
    assert (lost.live, lost.leaving) == (None, [live.live.name])


def test_the_graph_is_of_the_static_vectors_and_an_index_without_vectors_has_none():
    words = create_arguments("n", OTHER)
    assert words[words.index("DIM") + 1] == 128
    assert "VECTOR" not in create_arguments("n", Identity(model="", dimensions=0, vector_dimensions=0))


def at(ms: int) -> Position:
    return Position(ms, 0)


def test_what_is_projected_and_not_in_the_index_is_a_delay():
    assert delays({}, {0: at(5), 1: at(9)}, {0: at(7), 1: at(9)}, 100.0) == {0: Delay(at(7), 100.0)}


def test_a_partition_that_follows_steady_writes_is_not_delayed_for_long():
    """It is always a little behind, but never waits long for the same position."""
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    known = delays(known, {0: at(8)}, {0: at(9)}, 110.0)
    assert known == {0: Delay(at(9), 110.0)}


def test_a_partition_that_does_not_get_on_is_delayed_since_the_first_position():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    known = delays(known, {0: at(6)}, {0: at(20)}, 130.0)
    assert known == {0: Delay(at(7), 100.0)}


def test_a_delay_ends_when_the_index_has_all():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    assert delays(known, {0: at(7)}, {0: at(7)}, 101.0) == {}


def test_a_delay_stays_while_the_node_of_the_log_does_not_answer():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    assert delays(known, {0: at(5)}, {}, 101.0) == known
