"""Condensing by an isolated agent: nothing that another agent wrote gets into what is its own."""

import pytest
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, TrackSession
from ingest.errors import NotFound
from projections.condensing.operations import Condensing
from projections.documents.access import Reader, may_read

ADA, BOB = Reader(TENANT, "ada", "isolated"), Reader(TENANT, "bob", "isolated")
AS_ADA = Caller(TENANT, agent_id="ada")


def condensing(shop: Workshop) -> Condensing:
    return Condensing(shop.current, clock=shop.clock)


async def shared_session(shop: Workshop) -> None:
    """Of ada's, in which bob did something, too."""
    await shop.observe("We decided that ada keeps the kiwi.", agent_id="ada")
    await shop.observe("We decided that bob sells the mango.", agent_id="bob")
    await shop.project()


async def test_a_summary_for_an_isolated_agent_is_made_of_its_own_observations(shop: Workshop):
    await shared_session(shop)
    made = await condensing(shop).summarise(await shop.session(), AS_ADA, ADA)
    assert made.digest.decisions == ["We decided that ada keeps the kiwi."]
    await shop.project()
    summary = await shop.summary()
    assert (summary.decisions, summary.agent_id) == (made.digest.decisions, "ada")
    with pytest.raises(NotFound):
        await condensing(shop).summarise(await shop.session(), AS_ADA, Reader(TENANT, "cy", "isolated"))


async def test_a_summary_of_several_agents_observations_is_nobodys(shop: Workshop):
    await shared_session(shop)
    await shop.say(TrackSession(project="atlas", session_id="s1", status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    summary = await shop.summary()
    assert (summary.agent_id, len(summary.decisions)) == ("", 2)
    assert not may_read(summary, ADA)
    assert not may_read(summary, BOB)
    assert may_read(summary, Reader(TENANT))
    await condensing(shop).summarise(await shop.session(), AS_ADA, ADA)
    await shop.project()
    assert (await shop.summary()).decisions == ["We decided that ada keeps the kiwi."]


async def test_a_summary_of_one_agents_observations_is_its_own(shop: Workshop):
    await shop.observe("We decided that ada keeps the kiwi.", agent_id="ada")
    await shop.say(TrackSession(project="atlas", session_id="s1", status="ended"))
    await shop.project()
    await shop.upkeep().summarise()
    await shop.project()
    assert (await shop.summary()).agent_id == "ada"


async def test_slots_reflect_what_the_isolated_agent_may_see(shop: Workshop):
    await shared_session(shop)
    made = await condensing(shop).reflect_slots(await shop.session(), AS_ADA, reader=ADA)
    assert made.observations == 1


@pytest.mark.parametrize(("reader", "expected"), [(ADA, {"ada"}), (Reader(TENANT), {"ada", "bob"})])
async def test_a_project_is_consolidated_from_what_the_reader_may_see(
    shop: Workshop, reader: Reader, expected: set[str]
):
    for agent in ("ada", "bob"):
        for n in range(6):
            content = f"We decided that the {agent}-fruit needs the harbour, part {n}: error in the ledger of {agent}."
            await shop.observe(content, f"s-{agent}", agent_id=agent)
        await shop.say(TrackSession(project="atlas", session_id=f"s-{agent}", status="ended"))
    await shop.project()
    await shop.upkeep().summarise()
    await shop.project()
    made = await condensing(shop).consolidate(reader, "atlas", AS_ADA, fewest_observations=1)
    await shop.project()
    assert (made.observations, made.summaries) == (6 * len(expected), len(expected))
    text = "\n".join(memory.content for memory in await shop.memories())
    assert {agent for agent in ("ada", "bob") if f"{agent}-fruit" in text} == expected


@pytest.mark.parametrize(("reader", "items"), [(ADA, 4), (Reader(TENANT), 8)])
async def test_a_project_is_reflected_on_by_what_the_reader_may_see(shop: Workshop, reader: Reader, items: int):
    for agent in ("ada", "bob"):
        for n in range(2):
            await shop.remember(f"The {agent}-fruit is ripe {n}", agent_id=agent, tags=["fruit"])
            await shop.learn(f"Pick the {agent}-fruit early {n}", agent_id=agent, tags=["fruit"])
    await shop.project()
    assert (await condensing(shop).reflect(reader, "atlas", AS_ADA)).items == items
