"""How far a key reaches, and the one check below all commands."""

from datetime import UTC, datetime

import pytest

from ingest.commands.decide import AnyCommand, Caller, Observe, Remember, SetSlot, WriteAction, decide
from ingest.errors import AccessDenied, CommandRejected, OutsideKeyScope
from ingest.ids import new_event_id
from ingest.roles import ANYWHERE, KeyScope

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
