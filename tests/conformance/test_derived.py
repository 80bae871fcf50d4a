"""What was made of several documents, when some of them are forgotten: against a real Valkey.

Condensing by an isolated agent: nothing that another agent wrote gets into what is its own.
"""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, ChangeVisibility, TrackSession, WriteAction
from ingest.errors import NotFound
from ingest.log.position import START
from projections.condensing.operations import Condensing
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader, may_read
from projections.nouns.action import Action
from projections.nouns.lesson import Lesson, lessons
from projections.nouns.memory import Memory
from projections.nouns.session import session_document_id, summary_id

READER = Reader(TENANT)
CALLER = Caller(TENANT, agent_id="ada")
SHARED = "We decided that the gateway is restarted after every deploy."


def summary_of(session: str) -> str:
    return summary_id(session_document_id(TENANT, "atlas", session))


async def sessions(shop: Workshop, content: Mapping[str, Sequence[str]]) -> None:
    """Ended sessions with their summaries."""
    for session, texts in content.items():
        for text in texts:
            await shop.observe(text, session, kind="decision")
        await shop.say(TrackSession(project="atlas", session_id=session, status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == len(content)
    await shop.project()


async def consolidate(shop: Workshop) -> None:
    await Condensing(shop.current, clock=shop.clock).consolidate(READER, "atlas", CALLER, fewest_observations=1)
    await shop.project()


async def forget(shop: Workshop, session: str) -> None:
    current = shop.another_current()
    await Forgetting(current).session(await shop.session(session), CALLER)
    await shop.project()


async def tagged(shop: Workshop, tag: str) -> dict[str, Memory]:
    return {memory.content: memory for memory in await shop.memories() if tag in memory.tags}


async def stored(shop: Workshop, mark: str) -> list[str]:
    """Documents and log entries that have a text."""
    matches = [repr(document) for document in await shop.everything() if mark in repr(document)]
    for partition in range(shop.log.partitions):
        matches += [repr(row) for row in await shop.log.read(partition, START, 10_000) if mark.encode() in row.payload]
    return matches


OWN = {
    "s1": "We decided that invoices are rounded to cents.",
    "s2": "We decided that pictures are kept in the bucket.",
    "s3": "We decided that passwords are hashed with argon.",
    "s4": "We decided that backups are written at midnight.",
    "s5": "We decided that searches are cached for a minute.",
}


async def test_facts_name_the_sessions_that_state_them_and_survive_the_others(shop: Workshop):
    await sessions(shop, {name: [text, SHARED] if name < "s4" else [text] for name, text in OWN.items()})
    await consolidate(shop)
    before = await tagged(shop, "fact")
    assert sorted(before[SHARED].derived_from) == sorted(map(summary_of, ("s1", "s2", "s3")))
    assert before[SHARED].occurred_at == (await shop.summary("s3")).occurred_at < before[SHARED].recorded_at
    assert {text: before[text].derived_from for text in OWN.values()} == {
        text: [summary_of(name)] for name, text in OWN.items()
    }
    await forget(shop, "s1")
    after = await tagged(shop, "fact")
    assert after.keys() == before.keys() - {OWN["s1"]}
    assert after[SHARED].id == before[SHARED].id
    assert sorted(after[SHARED].derived_from) == sorted(map(summary_of, ("s2", "s3")))
    assert [after[text] for name, text in OWN.items() if name != "s1"] == [
        before[text] for name, text in OWN.items() if name != "s1"
    ]
    assert await stored(shop, "invoices") == []
    for session in ("s2", "s3"):
        await forget(shop, session)
    assert SHARED not in await tagged(shop, "fact")
    assert await stored(shop, "gateway") == []


async def test_a_fact_in_words_of_the_forgotten_alone_is_said_in_those_of_another(shop: Workshop):
    worded = {
        "s6": "We decided that the zqxv gateway is restarted after every deploy.",
        "s7": "We decided that the qvzx gateway is restarted after every deploy.",
    }
    await sessions(shop, {name: [text] for name, text in (OWN | worded).items()})
    await consolidate(shop)
    (before,) = [row for row in (await tagged(shop, "fact")).values() if "gateway" in row.content]
    assert sorted(before.derived_from) == sorted(map(summary_of, worded))
    gone, left = sorted(worded, key=lambda name: worded[name] != before.content)
    await forget(shop, gone)
    assert (await tagged(shop, "fact"))[worded[left]].derived_from == [summary_of(left)]
    assert await stored(shop, "zqxv" if gone == "s6" else "qvzx") == []


async def test_facts_of_an_earlier_release_that_name_every_summary_stay_where_another_says_them(shop: Workshop):
    await sessions(shop, {name: [text, SHARED] if name < "s3" else [text] for name, text in OWN.items()})
    everything = [summary_of(name) for name in OWN]
    facts = [*OWN.values(), SHARED]
    for fact in facts:
        await shop.remember(fact, tags=["fact", "consolidated"], derived_from=everything)
    await shop.project()
    await forget(shop, "s1")
    after = await tagged(shop, "fact")
    assert after.keys() == {*facts} - {OWN["s1"]}
    assert after[SHARED].derived_from == [summary_of("s2")]
    assert after[OWN["s5"]].derived_from == [summary_of("s5")]


ABOUT = {
    "s1": "The `redis` host lost the zqxv volume at noon.",
    "s2": "We decided that `redis` runs with appendfsync always.",
    "s3": "Every client of `redis` must reconnect after a failover.",
    "s4": "A slow script in `redis` blocked all clients for a second.",
}


async def test_a_consolidated_memory_loses_what_only_the_forgotten_said(shop: Workshop):
    await sessions(shop, {name: [text] for name, text in ABOUT.items()})
    await consolidate(shop)
    (before,) = (await tagged(shop, "consolidated")).values()
    assert before.title == "About redis"
    await forget(shop, "s1")
    (after,) = (await tagged(shop, "consolidated")).values()
    assert after.content.splitlines() == [before.title, *(f"- {ABOUT[name]}" for name in ("s2", "s3", "s4"))]
    assert len(after.derived_from) == 3
    assert await shop.gone(before.id)
    assert await stored(shop, "zqxv") == []
    for session in ("s2", "s3", "s4"):
        await forget(shop, session)
    assert await tagged(shop, "consolidated") == {}


async def test_what_is_left_of_a_memory_has_its_readers(shop: Workshop):
    await sessions(shop, {name: [text] for name, text in ABOUT.items()})
    await consolidate(shop)
    (made,) = [memory for memory in await shop.memories() if memory.title == "About redis"]
    await shop.say(ChangeVisibility(project="atlas", memory=made.id, visibility="shared", shared_with=["bob"]))
    await shop.project()
    await forget(shop, "s1")
    (left,) = [memory for memory in await shop.memories() if memory.title == "About redis"]
    assert (left.visibility, left.shared_with, left.agent_id) == ("shared", ["bob"], "ada")


async def test_forgettings_at_the_same_time_leave_nothing_of_what_any_of_them_forgot(shop: Workshop):
    await sessions(shop, {name: [text] for name, text in ABOUT.items()} | {name + "f": [SHARED] for name in OWN})
    await consolidate(shop)
    results = [await shop.session(name) for name in ("s1", "s2", "s3", "s1f", "s2f", "s3f", "s4f", "s5f")]
    await asyncio.gather(*(Forgetting(shop.another_current()).session(result, CALLER) for result in results))
    await shop.project()
    assert {memory.content for memory in await shop.memories()} == {ABOUT["s4"], f"About redis\n- {ABOUT['s4']}"}
    for mark in ("zqxv", "appendfsync", "failover", "gateway"):
        assert await stored(shop, mark) == []


async def test_forgetting_one_observation_of_a_session_leaves_facts_that_others_of_it_state(shop: Workshop):
    await sessions(shop, {name: [text, f"The zqxv{name} note is here."] for name, text in OWN.items()})
    await consolidate(shop)
    before = await tagged(shop, "fact")
    noted = next(
        document.id
        for document in await shop.everything()
        if "zqxvs1" in repr(document) and document.id.startswith("obs_")
    )
    await Forgetting(shop.another_current()).documents([noted], READER, CALLER)
    await shop.project()
    after = await tagged(shop, "fact")
    assert OWN["s1"] in before
    assert after.keys() == {text for text in before if "zqxvs1" not in text}
    assert await stored(shop, "zqxvs1") == []


async def test_a_crystal_loses_what_only_the_forgotten_action_said(shop: Workshop):
    done = {
        "Rotate zqxv": "It was rotated. Always rotate zqxv at dawn.",
        "Raise the pool": "It is fifty now. Never raise it above the limit.",
    }
    names = [(await shop.say(WriteAction(project="atlas", title=title))).id for title in done]
    for name, result in zip(names, done.values(), strict=True):
        await shop.say(WriteAction(project="atlas", action=name, status="done", result=result))
    await shop.project()
    made = await Condensing(shop.current, clock=shop.clock).crystallize(names, READER, CALLER)
    await shop.project()
    assert {lesson.content: lesson.sources for lesson in await lessons_of(shop)} == {
        "Always rotate zqxv at dawn.": [names[0]],
        "Raise the pool: Never raise it above the limit.": [names[1]],
    }
    await Forgetting(shop.another_current()).documents([names[0]], READER, CALLER)
    await shop.project()
    (left,) = (await tagged(shop, "crystal")).values()
    assert left.content == "Raise the pool: It is fifty now."
    assert (left.derived_from, left.references) == ([names[1]], [names[1]])
    assert await shop.gone(made.id)
    assert (await shop.document(names[1], Action)).crystallized_into == left.id
    assert [lesson.content for lesson in await lessons_of(shop)] == ["Raise the pool: Never raise it above the limit."]
    assert await stored(shop, "zqxv") == []


async def lessons_of(shop: Workshop) -> list[Lesson]:
    everywhere = range(shop.documents.partitions)
    page = await shop.documents.page(lessons(TENANT, "atlas"), everywhere, cursor=None, limit=100, newest_first=False)
    return [document.document for document in page.documents if isinstance(document.document, Lesson)]


async def test_what_somebody_wrote_stays_only_if_another_source_says_all_of_it(shop: Workshop):
    sources = [await shop.observe("The pool is at fifty.", "s1"), await shop.observe("The pool is at fifty!", "s2")]
    own = {"derived_from": [source.id for source in sources]}
    memory = await shop.remember("The pool is at fifty.", **own)
    more = await shop.remember("The pool is at fifty. Its password is swordfish.", **own)
    tagged = await shop.remember("The pool is at fifty.", tags=["swordfish"], **own)
    await shop.project()
    await Forgetting(shop.another_current()).documents([sources[0].id], READER, CALLER)
    await shop.project()
    assert (await shop.document(memory.id, Memory)).derived_from == [sources[1].id]
    assert [await shop.gone(item.id) for item in (more, tagged)] == [True, True]


# topics of one run


TOPICS = ("redis", "kafka", "nginx", "vault", "gitea", "minio", "loki")


async def test_topics_of_one_run_are_memories_of_their_own_however_alike_they_are(shop: Workshop):
    for topic in TOPICS:
        for place in ("first", "second", "third"):
            text = f"The `{topic}` service must be restarted by hand in the {place} data centre after a power cut."
            await shop.observe(text, "s1", kind="decision")
    for n in range(3):
        await shop.observe(f"All of {', '.join(f'`{item}`' for item in TOPICS)} are restarted in week {n} of a month.")
    await shop.project()
    await consolidate(shop)
    assert {memory.title for memory in await shop.memories()} == {f"About {topic}" for topic in TOPICS}
    again = {memory.id for memory in await shop.memories()}
    await consolidate(shop)
    assert {memory.id for memory in await shop.memories()} == again


async def test_new_evidence_revises_the_memory_of_its_topic(shop: Workshop):
    """Also where many newer memories are between."""
    for n in range(3):
        await shop.observe(f"The `redis` host {n} must be restarted by hand.", "s1", kind="decision")
    await shop.project()
    await consolidate(shop)
    for n in range(520):
        await shop.remember(f"note {n} of somebody")
    await shop.observe("The `redis` host 3 is switched off.", "s1", kind="decision")
    await shop.project()
    await consolidate(shop)
    (made,) = (await tagged(shop, "consolidated")).values()
    assert (made.version, "switched off" in made.content) == (2, True)


async def test_what_somebody_wrote_does_not_take_the_place_of_a_consolidated_memory(shop: Workshop):
    for n in range(3):
        await shop.observe(f"The `redis` host {n} must be restarted by hand.", "s1", kind="decision")
    await shop.project()
    await consolidate(shop)
    (made,) = await shop.memories()
    own = await shop.remember(made.content, keep_duplicates=False)
    await shop.project()
    await consolidate(shop)
    assert {memory.id for memory in await shop.memories()} == {made.id, own.id}


# insights


async def test_an_insight_of_several_sessions_survives_one_of_them(shop: Workshop):
    text = "Backups need a restore test every month."
    kept_in = [
        await shop.remember(f"{text} Host number {n} keeps them.", session_id=f"s{n}", concepts=["backups"])
        for n in range(3)
    ]
    await shop.project()
    condensing = Condensing(shop.current, clock=shop.clock)
    assert (await condensing.reflect(READER, "atlas", CALLER)).insights == 1
    await shop.project()
    (insight,) = await lessons_of(shop)
    assert (insight.content, insight.sources) == (text, [row.id for row in reversed(kept_in)])
    for n in range(2):
        await Forgetting(shop.another_current()).documents([kept_in[n].id], READER, CALLER)
        await shop.project()
        (insight,) = await lessons_of(shop)
        assert (insight.content, insight.sources) == (text, [row.id for row in reversed(kept_in[n + 1 :])])
    await Forgetting(shop.another_current()).documents([kept_in[2].id], READER, CALLER)
    await shop.project()
    assert await lessons_of(shop) == []


async def test_reflecting_makes_nothing_of_what_the_server_made(shop: Workshop):
    for n in range(3):
        await shop.observe(f"The `redis` host {n} must be restarted by hand.", "s1", kind="decision")
    await shop.project()
    await consolidate(shop)
    for n in range(3):
        await shop.remember("Edit `src/exceptions.py`.", session_id=f"s{n}", tags=["consolidated", "redis"])
    await shop.project()
    made = await Condensing(shop.current, clock=shop.clock).reflect(READER, "atlas", CALLER)
    assert (made.items, made.insights, made.reinforced) == (3, 0, 0)


async def test_reflecting_again_on_new_evidence_says_nothing_nearly_the_same(shop: Workshop):
    condensing = Condensing(shop.current, clock=shop.clock)
    for n, word in enumerate(("every", "each", "every single")):
        await shop.remember(f"Backups need a restore test {word} month.", session_id=f"s{n}", concepts=["backups"])
    await shop.project()
    await condensing.reflect(READER, "atlas", CALLER)
    await shop.remember("Backups really need a restore test every month.", session_id="s9", concepts=["backups"])
    await shop.project()
    made = await condensing.reflect(READER, "atlas", CALLER)
    assert (made.insights, made.reinforced) == (0, 1)
    await shop.project()
    (insight,) = await lessons_of(shop)
    assert (insight.reinforcements, len(insight.sources)) == (1, 4)


async def test_what_a_consolidated_fact_states_is_no_insight_beside_it(shop: Workshop):
    await sessions(shop, {f"s{n}": [SHARED] for n in range(5)})
    await consolidate(shop)
    assert SHARED in await tagged(shop, "fact")
    for n in range(3):
        await shop.remember(SHARED, session_id=f"s{n}", concepts=["gateway"])
    await shop.project()
    assert (await Condensing(shop.current, clock=shop.clock).reflect(READER, "atlas", CALLER)).insights == 0


async def test_what_a_memory_states_is_no_fact_beside_it(shop: Workshop):
    await shop.remember(f"{SHARED} We decided so in March.", session_id="s0")
    await sessions(shop, {f"s{n}": [SHARED] for n in range(5)})
    await consolidate(shop)
    assert await tagged(shop, "fact") == {}


KAFKA = "We decided on Kafka for the event bus."
NATS = "We decided to use NATS for the event bus."
APART = {name: [text] for name, text in OWN.items()}


async def test_decision_that_another_replaced_in_the_batch_is_no_memory_and_no_insight(shop: Workshop):
    await sessions(shop, APART | {f"k{n}": [KAFKA] for n in range(3)} | {"n": [NATS]})
    await consolidate(shop)
    await Condensing(shop.current, clock=shop.clock).reflect(READER, "atlas", CALLER)
    await shop.project()
    made = [memory.content for memory in await shop.memories()] + [lesson.content for lesson in await lessons_of(shop)]
    assert NATS in made
    assert [content for content in made if "Kafka" in content] == []


async def test_decision_that_a_later_memory_replaced_is_no_memory(shop: Workshop):
    await sessions(shop, APART | {"k": [KAFKA]})
    await shop.remember("We use NATS instead of Kafka.")
    await shop.project()
    await consolidate(shop)
    assert {*await tagged(shop, "fact")} == {*OWN.values()}


async def test_new_decision_revises_the_fact_that_it_replaces(shop: Workshop):
    await sessions(shop, APART | {"k": [KAFKA]})
    await consolidate(shop)
    assert KAFKA in await tagged(shop, "fact")
    await sessions(shop, {"n": [NATS]})
    await consolidate(shop)
    facts = await tagged(shop, "fact")
    assert (facts[NATS].version, KAFKA in facts) == (2, False)
    before = {memory.id for memory in await shop.memories()}
    await consolidate(shop)
    assert {memory.id for memory in await shop.memories()} == before
    await forget(shop, "n")
    assert await stored(shop, "NATS") == []


@pytest.mark.parametrize(
    "repeat",
    [
        "The gateway is restarted after every deploy, we decided that.",
        "The gateway is restarted after every deploy.",
        "We decided that the gateway is restarted after every deploy, as it leaks sockets.",
    ],
)
async def test_memory_in_another_order_or_without_a_clause_is_repeated_by_no_fact_and_no_insight(
    shop: Workshop, repeat: str
):
    await shop.remember(repeat)
    for n in range(5):
        await shop.observe(SHARED, f"s{n}", kind="conversation")
        await shop.say(TrackSession(project="atlas", session_id=f"s{n}", status="ended"))
    await shop.project()
    await shop.upkeep().summarise()
    await shop.project()
    await consolidate(shop)
    assert await tagged(shop, "fact") == {}
    assert (await Condensing(shop.current, clock=shop.clock).reflect(READER, "atlas", CALLER)).insights == 0


async def test_topic_whose_lines_are_memories_is_no_memory(shop: Workshop):
    lines = [f"The `redis` host {n} must be restarted by hand." for n in range(3)]
    for line in lines:
        await shop.observe(line, "s1", kind="decision")
    for line in lines[:2]:
        await shop.remember(line)
    await shop.project()
    await consolidate(shop)
    assert len(await tagged(shop, "consolidated")) == 1
    for memory in (await tagged(shop, "consolidated")).values():
        await Forgetting(shop.another_current()).documents([memory.id], READER, CALLER)
    await shop.remember(lines[2])
    await shop.project()
    await consolidate(shop)
    assert await tagged(shop, "consolidated") == {}


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


STORY = (
    "The export ran out of memory because the whole file is read at once; it is streamed now.",
    "Export job died again: out of memory, the file was read whole.",
    "The nightly export was killed for memory. It reads the file at once, so we stream it in chunks.",
    "Out of memory in the export, since it keeps the whole file in memory.",
    "The export of orders failed with out of memory. The file has to be streamed, not read whole.",
)


async def test_five_sessions_that_tell_the_same_give_one_memory_and_one_insight_of_five_sources(shop: Workshop):
    for n, text in enumerate(STORY):
        await shop.observe(text, f"s{n}", kind="conversation")
    await shop.project()
    made = await condensing(shop).consolidate(READER, "atlas", CALLER, fewest_observations=1)
    await shop.project()
    reflected = await condensing(shop).reflect(READER, "atlas", CALLER)
    await shop.project()
    assert (made.memories, reflected.insights) == (1, 1)
    (memory,), (insight,) = await shop.memories(), await lessons_of(shop)
    assert len(memory.derived_from) == len(insight.sources) == 5
    again = await condensing(shop).consolidate(READER, "atlas", CALLER, fewest_observations=1)
    assert (again.memories, (await condensing(shop).reflect(READER, "atlas", CALLER)).insights) == (0, 0)
    for n in range(5):
        await forget(shop, f"s{n}")
    assert (await shop.memories(), await lessons_of(shop)) == ([], [])


async def test_eight_sessions_with_the_same_request_and_command_give_a_procedure(shop: Workshop):
    for n in range(8):
        await shop.observe("", f"s{n}", kind="prompt_submit", data={"prompt": "Run the nightly export."})
        data = {"tool_name": "Bash", "tool_input": {"command": "make export ENV=prod"}, "tool_output": "done"}
        await shop.observe("", f"s{n}", kind="post_tool_use", data=data)
    await shop.project()
    assert (await condensing(shop).consolidate(READER, "atlas", CALLER)).procedures == 1
    await shop.project()
    (procedure,) = (await tagged(shop, "procedure")).values()
    assert procedure.content == "Run the nightly export.\n1. Bash `make export ENV=prod`"
    assert len(procedure.derived_from) == 16
    await forget(shop, "s7")
    (left,) = (await tagged(shop, "procedure")).values()
    assert (left.content, len(left.derived_from)) == (procedure.content, 14)


async def fixed(shop: Workshop, session: str, *ends: str) -> None:
    """A test that fails, an edit, a test that passes, and an agent's words."""
    test = {"tool_name": "Bash", "tool_input": {"command": "pytest tests/test_login.py"}}
    for output in ("FAILED tests/test_login.py::test_token - AssertionError\n1 failed", "1 passed"):
        await shop.observe("", session, kind="post_tool_use", data={**test, "tool_output": output})
        edit = {"tool_name": "Edit", "tool_input": {"file_path": "tests/conftest.py"}, "tool_output": "done"}
        await shop.observe("", session, kind="post_tool_use", data=edit)
    for text in ends:
        await shop.observe(text, session, kind="conversation")
    await shop.say(TrackSession(project="atlas", session_id=session, status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()


CAUSE = "The login test failed because its token had expired. The clock of the login test is frozen now."


async def test_a_session_that_fixed_a_failure_suggests_a_lesson_that_goes_with_its_evidence(shop: Workshop):
    await fixed(shop, "s1", CAUSE)
    (lesson,) = await lessons_of(shop)
    assert (lesson.content, lesson.origin, lesson.confidence) == (CAUSE, "suggestion", 0.3)
    assert len(lesson.sources) == 4
    await fixed(shop, "s2", CAUSE)  # another session says so, too
    (lesson,) = await lessons_of(shop)
    assert (lesson.reinforcements, len(lesson.sources)) == (1, 8)
    for session in ("s1", "s2"):
        await shop.say(TrackSession(project="atlas", session_id=session, status="started"))
        await shop.project()
        await condensing(shop).summarise(await shop.session(session), CALLER)
    await condensing(shop).reflect(READER, "atlas", CALLER)
    await shop.project()
    assert await lessons_of(shop) == [lesson]
    await forget(shop, "s1")
    (left,) = await lessons_of(shop)
    assert (left.content, len(left.sources)) == (CAUSE, 1)
    await forget(shop, "s2")
    assert await lessons_of(shop) == []
    assert await stored(shop, "token had expired") == []


async def test_a_session_that_goes_on_suggests_no_more_than_two_lessons(shop: Workshop):
    cause = "The login test of user{0} failed because token{0} had expired. Its clock is fixed now."
    causes = [cause.format(n) for n in range(6)]
    await fixed(shop, "s1", *causes[:3])
    assert len(await lessons_of(shop)) == 2
    await fixed(shop, "s1", *causes[3:])
    assert len(await lessons_of(shop)) == 2
