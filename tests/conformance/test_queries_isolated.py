"""What an isolated reader is told of work that several agents did: its own, and what its own waits for."""

from desk import ALONE, NOBODY, Desk
from factories import AGENT, PROJECT

from ingest.commands.decide import SummariseSession, WriteAction
from ingest.events.action import ActionEdge
from projections.documents.access import Reader
from projections.queries.context import Compile, ContextRequest
from projections.queries.profiles import ProjectProfiles
from projections.queries.sessions import Sessions
from projections.queries.work import Actions

ADA = Reader(ALONE.tenant, AGENT, "isolated")


def compiling(desk: Desk) -> Compile:
    profiles = ProjectProfiles(desk.replica, desk.documents)
    return Compile(desk.replica, desk.documents, desk.recall, profiles)


async def told(desk: Desk, reader: Reader) -> str:
    """What the context says of past sessions."""
    context = await compiling(desk)(ContextRequest(project=PROJECT), reader)
    return "\n".join(block.text for block in context.blocks if block.kind == "session")


async def test_a_past_session_is_told_by_the_readers_own_observations(desk: Desk):
    await desk.observe("We decided that ada keeps the kiwi.")
    await desk.observe("We decided that bob sells the mango.", agent_id="bob")
    await desk.settle()
    assert "kiwi" in await told(desk, ADA)
    assert "mango" not in await told(desk, ADA)
    assert "mango" in await told(desk, NOBODY)


async def test_a_summary_that_is_nobodys_is_not_shown_to_an_isolated_reader(desk: Desk):
    await desk.observe("We decided that ada keeps the kiwi.")
    await desk.settle()
    located = await Sessions(desk.documents).one(NOBODY, "s1", PROJECT)
    said = SummariseSession(
        project=PROJECT,
        session_id="s1",
        title="Fruit",
        narrative="The kiwi and the mango.",
        observation_count=1,
        forgotten_at=getattr(located.document, "told_from", ""),
    )
    await desk.say(said)
    await desk.settle()
    assert "mango" in await told(desk, NOBODY)
    assert "mango" not in await told(desk, ADA)
    assert "kiwi" in await told(desk, ADA)


async def test_an_action_of_another_agent_blocks_and_is_not_shown(desk: Desk):
    first = await desk.say(WriteAction(project=PROJECT, title="Find the fault", agent_id=AGENT))
    waits = [ActionEdge(type="requires", target=first)]
    waiting = await desk.say(WriteAction(project=PROJECT, title="Fix it", agent_id="bob", edges=waits))
    free = await desk.say(WriteAction(project=PROJECT, title="Tell it", agent_id="bob"))
    await desk.settle()
    work = await Actions(desk.documents).open_work(ALONE, PROJECT)
    assert {*work.actions} == {waiting, free}
    assert [one.item.id for one in work.ready] == [free]
    everybody = await Actions(desk.documents).open_work(NOBODY, PROJECT)
    assert {*everybody.actions} == {first, waiting, free}
    assert {one.item.id for one in everybody.ready} == {first, free}
