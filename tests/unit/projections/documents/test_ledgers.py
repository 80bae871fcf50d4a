"""Ledgers: everything that is put in comes out again, in little room."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from ingest.ids import DocumentId, document_id
from ingest.log.position import Position
from projections.documents.document import decode, encode
from projections.documents.tombstones import (
    ID_BYTES,
    TYPES,
    Ledger,
    LedgerEntry,
    count_of,
    holds,
    ledger_id,
    packed,
    unpacked,
)

SESSION = document_id("ses", "s1", "")
EMPTY = Ledger(id=ledger_id(SESSION), session=SESSION, tenant="acme", session_id="s1", parts=1)
MS = 1_769_860_800_000
SECOND = 1000


def seen(n: int, *, agent: str = "ada", user: str = "", late: int = -40) -> LedgerEntry:
    name = document_id("obs", "s1", f"e{n}")
    at = Position(MS + n * 3 * SECOND, 0)
    return LedgerEntry(name, at, TYPES[0], name, agent, user, at.ms + late, at.ms)


@st.composite
def entries(draw: st.DrawFn) -> list[LedgerEntry]:
    """Observations, and marks of their session or of an observation, at any positions, by anybody, imported or not."""
    found: list[LedgerEntry] = []
    for n in range(draw(st.integers(0, 12))):
        at = Position(draw(st.integers(0, 1 << 43)), draw(st.integers(0, 999_999)))
        was = draw(st.sampled_from(TYPES))
        user = draw(st.sampled_from(["", "eve", "bob"]))
        if was == TYPES[0]:
            name = document_id("obs", "s1", f"e{n}")
            times = draw(st.integers(-(1 << 45), 1 << 45)), draw(st.integers(0, 1 << 43))
            found.append(LedgerEntry(name, at, was, name, draw(st.sampled_from(["", "ada", "bob"])), user, *times))
        else:
            subject = document_id("obs", "s1", f"e{n - 1}") if was == TYPES[1] else SESSION
            name = document_id("evt", "s1", f"e{n}")
            found.append(LedgerEntry(name, at, was, subject, user_id=user, erased=draw(st.booleans())))
    return found


@given(entries())
def test_what_is_packed_comes_out_again_in_the_order_of_positions(found: list[LedgerEntry]):
    ledger = packed(EMPTY, found)
    assert unpacked(ledger) == sorted(found, key=lambda one: (one.position, one.name))
    assert packed(EMPTY, unpacked(ledger)) == ledger
    assert decode(ledger.id, encode(ledger)) == ledger
    assert count_of(ledger) == len(found)
    assert (ledger.id, ledger.session, ledger.tenant, ledger.parts) == (EMPTY.id, SESSION, "acme", 1)


@given(entries())
def test_it_holds_what_is_in_it_and_nothing_else(found: list[LedgerEntry]):
    ledger = packed(EMPTY, found[1:])
    assert all(holds(ledger, one.name) for one in found[1:])
    assert not any(holds(ledger, one.name) for one in found[:1])


def test_an_id_that_lies_across_two_others_is_not_in_it():
    ledger = packed(EMPTY, [seen(1), seen(2)])
    across = DocumentId(f"obs_{ledger.names[3 : 3 + ID_BYTES].hex()}")
    assert not holds(ledger, across)


def test_an_observation_of_a_busy_session_costs_less_than_twenty_bytes():
    """Ten are its id; a position and a time claimed a little earlier are the rest."""
    ledger = packed(EMPTY, [seen(n) for n in range(500)])
    alone = len(msgpack.encode(packed(EMPTY, [])))
    assert (len(msgpack.encode(ledger)) - alone) / 500 < 20


def test_users_of_no_entry_are_not_named():
    """A forgotten user's name goes with the last of its observations."""
    ledger = packed(EMPTY, [seen(1, user="eve"), seen(2, user="bob")])
    left = packed(ledger, [one for one in unpacked(ledger) if one.user_id != "eve"])
    assert left.users == ["bob"]
    assert packed(ledger, []).users == []
