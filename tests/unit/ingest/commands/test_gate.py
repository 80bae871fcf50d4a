"""The gate is asked before every write but forgetting, and what it keeps out is counted."""

from contextlib import AbstractContextManager, nullcontext

import pytest
from factories import ManualClock, event

from ingest.commands.decide import AnyCommand, Caller, ForgetSubject, Observe, Remember, SetSlot, TrackSession
from ingest.commands.handler import CommandHandler, charge
from ingest.errors import CommandRejected, LogFull, Overloaded
from ingest.events.session import SessionEnded
from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import GroupCommit
from tests.support.memory_log import MemoryLog

ADA = Caller("acme")
FORGET = ForgetSubject(kind="memory", subject="mem_1", documents=["mem_1"])


class Ceiling:
    """A gate that is shut while `why` says why."""

    def __init__(self) -> None:
        self.why = ""

    def check(self, tenant: str) -> None:
        if self.why:
            raise Overloaded(self.why, 7, "memory")

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        return nullcontext()


class Full(GroupCommit):
    """A log whose server has no memory left."""

    async def append(self, entries: list[tuple[int, Entry]]) -> list[Appended]:  # type: ignore[override]
        raise LogFull("no memory left")


@pytest.fixture
def ceiling() -> Ceiling:
    return Ceiling()


@pytest.fixture
def handler(clock: ManualClock, ceiling: Ceiling) -> CommandHandler:
    """A handler that asks the gate."""
    made = CommandHandler(GroupCommit(MemoryLog(4, clock.ms)), 4, clock)
    made.gate = ceiling
    return made


@pytest.mark.parametrize(
    "command",
    [
        Remember(content="tea at four"),
        Observe(session_id="s1", content="red"),
        TrackSession(session_id="s1", status="ended"),
        SetSlot(label="plan", content="tea"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_write_is_refused_while_the_gate_is_shut_and_taken_when_it_opens(
    handler: CommandHandler, ceiling: Ceiling, command: AnyCommand
):
    ceiling.why = "too much"
    with pytest.raises(Overloaded, match="too much") as refused:
        await handler.handle(command, ADA)
    assert (refused.value.retry_after_s, refused.value.cause) == (7, "memory")
    ceiling.why = ""
    assert not (await handler.handle(command, ADA)).duplicate


async def test_a_batch_is_refused_as_a_whole_and_stored_later_once(handler: CommandHandler, ceiling: Ceiling):
    batch = [Remember(content="one", event_id="e1"), Remember(content="two", event_id="e2")]
    await handler.handle_batch(batch[:1], ADA)
    ceiling.why = "too much"
    with pytest.raises(Overloaded):
        await handler.handle_batch(batch, ADA)
    ceiling.why = ""
    outcome = await handler.handle_batch(batch, ADA)
    assert (outcome.accepted, outcome.duplicates) == (1, 1)


async def test_forgetting_passes_a_gate_that_is_shut(handler: CommandHandler, ceiling: Ceiling):
    ceiling.why = "too much"
    await handler.handle(FORGET, ADA)
    kept = SetSlot(label="plan", content="without the forgotten line")
    assert (await handler.handle_batch([FORGET, kept], ADA)).accepted == 2
    assert handler.refused == {}


async def test_what_may_not_be_is_told_as_that_also_when_the_gate_is_shut(handler: CommandHandler, ceiling: Ceiling):
    """Coming back later would not help."""
    ceiling.why = "too much"
    with pytest.raises(CommandRejected):
        await handler.handle(Remember(content="tea", project="a\0b"), ADA)
    outcome = await handler.handle_batch([CommandRejected("no content", "content")], ADA)
    assert [fault.message for _, fault in outcome.rejected] == ["no content"]


async def test_refusals_are_counted_by_their_reason(clock: ManualClock, ceiling: Ceiling):
    handler = CommandHandler(Full(MemoryLog(4, clock.ms)), 4, clock)
    handler.gate = ceiling
    with pytest.raises(LogFull):
        await handler.handle(Remember(content="tea"), ADA)
    ceiling.why = "too much"
    with pytest.raises(Overloaded):
        await handler.handle_batch([Remember(content="tea")] * 3, ADA)
    with pytest.raises(Overloaded):
        await handler.append_events([event(SessionEnded())])
    assert handler.refused == {"server": 1, "memory": 4}


async def test_every_way_in_charges_the_events_that_it_stored(handler: CommandHandler):
    """Batches, imports and single writes; also repeats, which the log looked up. What was refused costs nothing."""
    charged: list[int] = []

    async def meter(events: int) -> None:
        charged.append(events)

    token = charge.set(meter)
    try:
        await handler.handle(Remember(content="tea"), ADA)
        commands = [Remember(content=f"tea {n}", event_id=f"e{n}") for n in range(3)]
        await handler.handle_batch([*commands, CommandRejected("no")], ADA)
        await handler.handle_batch(commands, ADA)
        await handler.append_events([event(SessionEnded())])
    finally:
        charge.reset(token)
    await handler.handle(Remember(content="of a worker"), ADA)
    assert charged == [1, 3, 3, 1]
