"""What a sweep forgets: memories whose time has run out, and old observations that hardly mattered."""

import asyncio
from datetime import timedelta

from desk import ADA, NOBODY, PARTITIONS, Desk
from factories import TENANT

from api.importing.mapping import Mapped, Step, events_of
from ingest.commands.decide import Caller, Observe
from ingest.commands.handler import CommandHandler
from ingest.events.session import ObservationCompressed
from ingest.log.group_commit import GroupCommit
from ingest.log.position import Token
from ingest.platform.clock import system_clock
from projections.forgetting.forget import KEPT, Forgetting, Sweep, Swept
from projections.operations.current import Current


async def observe(desk: Desk, content: str, days_ago: float, importance: int) -> str:
    """An observation of some days ago, compressed with this importance."""
    command = Observe(content=content, project="atlas", session_id=content)
    short = ObservationCompressed(
        observation="", title=content, narrative=content, facts=[], concepts=[], files=[], importance=importance,
        model="m", prompt_version="1",
    )  # fmt: skip
    step = Step(command, content, system_clock() - timedelta(days=days_ago), short)
    handler = CommandHandler(GroupCommit(desk.log), PARTITIONS)
    events = events_of(Mapped([step]), "test", TENANT)
    await handler.append_events(events)
    compressed = events[1].data
    assert isinstance(compressed, ObservationCompressed)
    return compressed.observation


async def swept(desk: Desk, *, dry_run: bool = False) -> Swept:
    """What a sweep for nobody in particular does now."""

    async def fold(token: Token) -> None:
        await desk.settle()

    handler = CommandHandler(GroupCommit(desk.log), PARTITIONS)
    current = Current(handler, desk.documents, desk.log, fold)
    sweep = Sweep(current, desk.lookup, Forgetting(current))
    results = await sweep.run(NOBODY, Caller(TENANT), dry_run=dry_run)
    await desk.settle()
    return results


async def there(desk: Desk, *names: str) -> list[str]:
    results = await desk.lookup.documents(names, NOBODY)
    return [result.document.id for result in results]


async def test_only_what_is_old_and_hardly_mattered_goes(desk: Desk):
    old = KEPT.days + 1
    trifle = await observe(desk, "trifle", old, 2)
    stored = [
        await observe(desk, "weighty", old, 3),
        await observe(desk, "recent", KEPT.days - 1, 1),
    ]
    await desk.settle()
    planned = await swept(desk, dry_run=True)
    assert (planned.unimportant, planned.expired, planned.position) == ([trifle], [], "")
    assert await there(desk, trifle, *stored) == [trifle, *stored]
    assert (await swept(desk)).unimportant == [trifle]
    assert await there(desk, trifle, *stored) == stored
    assert (await swept(desk)).unimportant == []


async def test_an_observation_that_something_was_made_of_stays(desk: Desk):
    """Forgetting it would take along what was made of it."""
    source = await observe(desk, "source", KEPT.days + 1, 1)
    memory = await desk.remember("made of it", derived_from=[source])
    await desk.settle()
    assert (await swept(desk)).unimportant == []
    assert await there(desk, source, memory) == [source, memory]


async def test_a_memory_goes_when_its_time_has_run_out(desk: Desk):
    over = await desk.remember("soon over", ttl_days=1e-9)
    private = await desk.remember("somebody's", ttl_days=1e-9, visibility="private")
    lasting = await desk.remember("for a while", ttl_days=1)
    await desk.settle()
    await asyncio.sleep(0.01)
    assert (await swept(desk, dry_run=True)).expired == [over]
    assert (await swept(desk)).expired == [over]
    assert await there(desk, over, lasting) == [lasting]
    mine = await desk.lookup.documents([private], ADA)
    assert [document.document.id for document in mine] == [private]
