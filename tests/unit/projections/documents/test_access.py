"""Who may read what: every visibility against every kind of reader."""

from typing import Any

import pytest
from factories import learned, observed, remembered, said
from given import given
from msgspec.structs import replace

from ingest.errors import CommandRejected
from ingest.events.memory import MemoryRecorded
from ingest.events.slot import SlotSet
from ingest.roles import KeyScope
from projections.documents.access import EVERYBODY, Reader, may_change, may_forget, may_read, reader_of
from projections.documents.memories import Memory
from projections.documents.tombstones import SupersededEvent, Tombstone

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
    documents = [one for one in given(event).store.documents.values() if not isinstance(one, SupersededEvent)]
    assert documents
    for one in documents:
        assert may_read(one, Reader("default"))
        assert not may_read(one, Reader("other"))
        assert may_read(one, Reader("default", "ada", "isolated"))
        assert not may_read(one, Reader("default", "eve", "isolated"))


def test_a_mark_is_nobodys_in_isolated_scope():
    (mark,) = [one for one in given(learned(1)).store.documents.values() if isinstance(one, SupersededEvent)]
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


class TestReaders:
    def test_shared_everybody_reads_as_whom_they_say(self):
        assert reader_of("t", "shared", "ada", "bob") == Reader("t", "bob")
        assert reader_of("t", "shared", "ada", "").only_agent == ""
        assert reader_of("t", "shared", "ada", EVERYBODY) == Reader("t")

    def test_isolated_the_servers_agent_reads_unless_another_is_named(self):
        assert reader_of("t", "isolated", "ada", "").only_agent == "ada"
        assert reader_of("t", "isolated", "ada", "bob").only_agent == "bob"

    def test_isolated_the_scope_may_be_lifted(self):
        assert reader_of("t", "isolated", "ada", EVERYBODY) == Reader("t")

    def test_isolated_somebody_must_read(self):
        with pytest.raises(CommandRejected) as refused:
            reader_of("t", "isolated", "", "")
        assert refused.value.field == "agent_id"
