"""What keys allow: roles, scopes, projects and agents; and the levels of durability."""

import itertools
from datetime import UTC, datetime

import pytest

from ingest.commands.decide import AnyCommand, Caller, Observe, Remember, SetSlot, WriteAction, decide
from ingest.durability import LEVELS, parse_durability, reaches, weakest
from ingest.errors import AccessDenied, CommandRejected, OutsideKeyScope
from ingest.ids import new_event_id
from ingest.roles import ANYWHERE, KeyScope, roles_by_scope


def test_entries_say_which_roles_a_scope_gives():
    assert roles_by_scope(["see=read", "a=b=write", "https://x/y=read+admin", "see=write"]) == {
        "see": {"read", "write"},
        "a=b": {"write"},
        "https://x/y": {"read", "admin"},
    }


@pytest.mark.parametrize("entry", ["", "read", "=read", "x=", "x=owner", "x=read+", "a b=read", 'a"b=read', "é=read"])
def test_an_entry_that_is_none_is_told(entry: str):
    with pytest.raises(ValueError, match="is not SCOPE=ROLE or SCOPE=ROLE"):
        roles_by_scope([entry])


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SHOP = KeyScope(projects=("shop",))
ADA = KeyScope(agents=("ada", "bob"))


def decided(command: AnyCommand, key_scope: KeyScope, agent: str = ""):
    """What a command becomes for a caller of that reach."""
    return decide(command, Caller("default", "native", agent, key_scope=key_scope), new_event_id(), NOW)


def test_everything_is_within_reach_of_a_key_without_limits():
    assert ANYWHERE.allows("shop")
    assert ANYWHERE.allows("")
    assert ANYWHERE.speaks_for("")


def test_the_nameless_project_is_within_reach_only_where_it_is_named():
    assert not SHOP.allows("")
    assert KeyScope(projects=("", "shop")).allows("")


def test_a_command_for_a_project_of_the_key_becomes_its_event():
    assert decided(Remember(content="tea", project="shop"), SHOP).event.envelope.project == "shop"


@pytest.mark.parametrize(
    "command",
    [
        Remember(content="tea"),
        Remember(content="tea", project="bank"),
        Observe(content="tea", project="bank", session_id="s1"),
        WriteAction(action="act_1", status="done", project="bank"),
        SetSlot(label="plans", content="tea", project="shop", scope="global"),
    ],
)
def test_a_command_for_another_project_is_refused(command: AnyCommand):
    with pytest.raises(OutsideKeyScope) as refused:
        decided(command, SHOP)
    assert refused.value.field == "project"


def test_a_refusal_is_a_rejection_of_its_item_and_a_denial_of_access():
    """A batch goes on without the item; a single command is answered 403."""
    assert issubclass(OutsideKeyScope, CommandRejected)
    assert issubclass(OutsideKeyScope, AccessDenied)


@pytest.mark.parametrize(("named", "by_transport"), [("eve", ""), ("", "eve"), ("", "")])
def test_a_command_in_another_name_or_in_none_is_refused(named: str, by_transport: str):
    with pytest.raises(OutsideKeyScope):
        decided(Remember(content="tea", agent_id=named), ADA, by_transport)


def test_a_command_in_a_name_of_the_key_is_taken():
    assert decided(Remember(content="tea", agent_id="bob"), ADA).event.envelope.agent_id == "bob"


@pytest.mark.parametrize("key_scope", [SHOP, ADA])
def test_what_concerns_a_whole_tenant_is_refused_to_a_part_of_it(key_scope: KeyScope):
    ANYWHERE.check_whole()
    with pytest.raises(AccessDenied):
        key_scope.check_whole()


def test_a_level_reaches_itself_and_every_weaker_one():
    for (place, reached), (other, wanted) in itertools.product(enumerate(LEVELS), enumerate(LEVELS)):
        assert reaches(reached, wanted) == (place >= other)


def test_without_a_wish_any_level_will_do():
    assert all(reaches(level, None) for level in LEVELS)


def test_several_writes_are_as_durable_as_the_weakest():
    assert weakest(["replicated", "fsync"]) == "fsync"
    assert weakest(["fsync", "memory", "replicated"]) == "memory"
    assert weakest(["replicated"]) == "replicated"


def test_of_nothing_nothing_is_promised():
    assert weakest([]) == "memory"


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_read_by_its_name(level: str):
    assert parse_durability(level, "X-Durability") == level


def test_no_text_is_no_wish():
    assert parse_durability(None, "X-Durability") is None


@pytest.mark.parametrize("level", ["diamond", "", "fsync, fsync"])
def test_an_unknown_level_is_refused_and_the_known_ones_are_named(level: str):
    with pytest.raises(CommandRejected, match="memory, fsync, replicated") as refused:
        parse_durability(level, "X-Durability")
    assert refused.value.field == "X-Durability"
