"""Who may read a document; and ledgers, which return everything that was put in."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
from factories import learned, observed, remembered, said
from given import given
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import replace

from ingest.errors import OutsideKeyScope, ReaderUnknown
from ingest.ids import DocumentId, document_id
from ingest.log.position import Position
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.slot import SlotSet
from ingest.roles import KeyScope
from projections.nouns.access import (
    Reader,
    has_access,
    may_change,
    may_forget,
    may_read,
    operator_of,
    reader_of,
)
from projections.nouns.document import decode, encode
from projections.nouns.memory import Memory
from projections.nouns.tombstone import (
    ID_BYTES,
    TYPES,
    Ledger,
    LedgerEntry,
    SupersededEvent,
    Tombstone,
    count_of,
    holds,
    ledger_id,
    packed,
    unpacked,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
READERS = {
    "creator": Reader("default", "ada"),
    "owner": Reader("default", "olga"),
    "shared with": Reader("default", "bob"),
    "stranger": Reader("default", "eve"),
    "nobody": Reader("default"),
    "operator": Reader("default", operator=True),
    "another tenant's creator": Reader("other", "ada"),
    "another tenant's operator": Reader("other", operator=True),
}
EVERY_ONE = {"creator", "owner", "shared with", "stranger", "nobody", "operator"}
MAY_READ = {
    "public": EVERY_ONE,
    "shared": {"creator", "owner", "shared with", "operator"},
    "private": {"creator", "owner", "operator"},
}


def memory(visibility: Any = "public", **changes: Any) -> Memory:
    """A memory that ada made for olga and shared with bob."""
    event = said(1, MemoryRecorded(content="tea", visibility=visibility, shared_with=["bob"], owner="olga"))
    return replace(given(event).memory(event), **changes)


def test_an_expired_memory_is_shown_to_no_reader_and_can_still_be_deleted():
    expired = memory(forget_after=NOON)
    for reader in (READERS["creator"], READERS["operator"]):
        assert may_read(expired, reader._replace(now=NOON - timedelta(seconds=1)))
        assert not may_read(expired, reader._replace(now=NOON))
        assert has_access(expired, reader._replace(now=NOON))
        assert may_read(expired, reader), "a job has no time"


def test_a_key_limited_to_projects_reads_only_those():
    for operator in (False, True):
        reader = Reader("default", "ada", operator=operator, key_scope=KeyScope(projects=("shop",)))
        assert may_read(memory(project="shop"), reader)
        assert not may_read(memory(project="bank"), reader)
        assert not may_read(memory(project=""), reader)


@pytest.mark.parametrize("visibility", MAY_READ)
@pytest.mark.parametrize("who", READERS)
def test_who_may_read_a_memory(who: str, visibility: str):
    assert may_read(memory(visibility), READERS[who]) is (who in MAY_READ[visibility])


@pytest.mark.parametrize("visibility", MAY_READ)
@pytest.mark.parametrize("who", ["creator", "owner", "shared with", "stranger"])
def test_in_isolated_scope_only_what_one_wrote_oneself_is_seen(who: str, visibility: str):
    reader = READERS[who]._replace(scope="isolated")
    assert may_read(memory(visibility), reader) is (who == "creator")


@pytest.mark.parametrize("visibility", MAY_READ)
def test_an_operator_sees_all_of_the_tenant_in_any_scope(visibility: str):
    assert may_read(memory(visibility), Reader("default", "eve", "isolated", operator=True))


@pytest.mark.parametrize("visibility", ["shared", "private"])
def test_a_memory_of_nobody_is_not_for_readers_without_a_name(visibility: str):
    """An empty owner is nobody, not everybody who says no name."""
    unowned = memory(visibility, owner="", agent_id="", shared_with=[])
    assert not may_read(unowned, Reader("default"))
    assert not may_read(unowned, Reader("default", "eve"))


@pytest.mark.parametrize("event", [observed(1), learned(1), said(1, SlotSet(label="notes", content="a"))], ids=str)
def test_other_documents_are_for_everybody_of_the_tenant(event: Any):
    documents = [
        document for document in given(event).store.documents.values() if not isinstance(document, SupersededEvent)
    ]
    assert documents
    for one in documents:
        assert may_read(one, Reader("default"))
        assert not may_read(one, Reader("other"))
        assert may_read(one, Reader("default", "ada", "isolated"))
        assert not may_read(one, Reader("default", "eve", "isolated"))


def test_a_mark_is_nobodys_in_isolated_scope():
    (mark,) = [
        document for document in given(learned(1)).store.documents.values() if isinstance(document, SupersededEvent)
    ]
    assert not may_read(mark, Reader("default", "ada", "isolated"))


@pytest.mark.parametrize("what", [None, Tombstone(id=remembered(1, "").envelope.event_id), object()])  # type: ignore[arg-type]
def test_what_is_no_document_of_a_tenant_is_read_by_nobody(what: Any):
    assert not may_read(what, Reader("default", operator=True))


@pytest.mark.parametrize(("actor", "may"), [("ada", True), ("olga", True), ("bob", False), ("eve", False), ("", False)])
def test_a_creator_and_an_owner_may_change_who_reads(actor: str, may: bool):
    assert may_change(memory("shared"), actor) is may


@pytest.mark.parametrize("visibility", ["shared", "private"])
def test_who_a_memory_is_only_shared_with_may_not_forget_it(visibility: str):
    known = memory(visibility, agent_id="ada", owner="bob", shared_with=["eve"])
    assert {who for who in ("ada", "bob", "eve", "mallory", "") if may_forget(known, Reader(known.tenant, who))} == {
        "ada",
        "bob",
    }
    assert may_forget(known, Reader(known.tenant, operator=True))


def test_anybody_may_forget_what_is_public():
    assert may_forget(memory("public"), Reader("default", "eve"))


def test_nobody_is_not_the_owner_of_an_unowned_memory():
    assert not may_change(memory("private", owner="", agent_id=""), "")


def test_the_audience_is_who_may_read():
    assert memory("public").audience == []
    assert memory("shared").audience == ["ada", "bob", "olga"]
    assert memory("private").audience == ["ada", "olga"]


TABLE = Path(__file__).with_name("readers.txt").read_text().splitlines()[3:]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(row.split()))
def test_a_scope_a_key_and_a_named_agent_make_the_reader_of_the_table(row: str):
    scope, server, key, named, expected = (column.strip("-") for column in row.split(None, 4))
    limits = KeyScope(agents=tuple(filter(None, key.split(","))))

    def reader() -> Reader:
        return (
            operator_of("t", limits) if scope == "operator" else reader_of("t", cast(Any, scope), server, named, limits)
        )

    if expected.startswith("refused"):
        with pytest.raises(OutsideKeyScope if "key" in expected else ReaderUnknown) as refused:
            reader()
        assert refused.value.field == "agent_id"
    elif expected == "everything":
        assert reader() == Reader("t", operator=True, key_scope=limits)
    else:
        agent = expected.removeprefix("only ").removesuffix("public")
        only = agent if expected.startswith("only") else ""
        assert reader() == Reader("t", agent, "isolated" if only else "shared", key_scope=limits)
        assert reader().only_agent == only


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


@hypothesis.given(entries())
def test_what_is_packed_comes_out_again_in_the_order_of_positions(found: list[LedgerEntry]):
    ledger = packed(EMPTY, found)
    assert unpacked(ledger) == sorted(found, key=lambda one: (one.position, one.name))
    assert packed(EMPTY, unpacked(ledger)) == ledger
    assert decode(ledger.id, encode(ledger)) == ledger
    assert count_of(ledger) == len(found)
    assert (ledger.id, ledger.session, ledger.tenant, ledger.parts) == (EMPTY.id, SESSION, "acme", 1)


@hypothesis.given(entries())
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
