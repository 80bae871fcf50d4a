"""The client against a real server: what it wrote it reads, and a server that is killed loses and doubles nothing."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from waiting import wait_until

from mnemolog_client import (
    AlreadyClaimed,
    AsyncMnemolog,
    Conflict,
    InvalidRequest,
    Mnemolog,
    NotFound,
    Retry,
    StaleToken,
    Unauthorized,
    Unreachable,
    VersionConflict,
)
from tests.acceptance.running import SECRET, Server

PATIENT = Retry(attempts=100, patience_s=60.0)
EVENTS, SESSIONS, BEFORE_THE_KILL = 2_000, 4, 500


def client_of(server: Server, agent: str = "ada") -> Mnemolog:
    return Mnemolog(server.url, SECRET, agent=agent, retry=PATIENT)


def test_what_a_client_writes_it_reads_at_once(server: Server, project: str):
    with client_of(server) as client:
        for n in range(20):
            kept = client.memories.create(f"{uuid4().hex} is the {n}th secret word", project=project)
            assert client.memories.get(kept.id).agent_id == "ada"
        kept = client.memories.create("tea is served at four", project=project)
        assert len(list(client.memories.list(project, page_size=7))) == 21
        revised = client.memories.revise(kept.id, content="tea is served at five", tags=["tea"])
        assert [one.version for one in client.memories.history(kept.id)] == [1, 2]
        assert client.search("when is tea served?", project=project)[0].id == revised.id
        assert client.confirm([revised.id]).confirmed == [revised.id]
        recalled = client.recall("when is tea served?", project=project)
        judged = client.feedback("helped", recall_id=recalled.recall_id, project=project)
        assert revised.id in judged.judged
        client.memories.delete(revised.id, reason="asked to")
        with pytest.raises(NotFound):
            client.memories.get(revised.id)


def test_another_client_reads_what_it_was_handed_the_position_of(server: Server, project: str):
    with client_of(server) as writer, client_of(server, agent="bob") as reader:
        writer.observations.create("s1", "the tests are red", project=project)
        reader.advance(writer.position)
        assert [observation.content for observation in reader.sessions.observations("s1", project=project)] == [
            "the tests are red"
        ]


def test_lessons_slots_actions_and_sessions(server: Server, project: str):
    with client_of(server) as client:
        client.sessions.start("s/1", project=project, title="Fix the build")
        client.observations.create("s/1", "pinned the linker", project=project, kind="decision")
        lesson = client.lessons.create("Pin the toolchain", project=project, trigger_tool="Bash", severity="warning")
        client.lessons.reinforce(lesson.id)
        assert [one.id for one in client.lessons.match("Bash", project=project)] == [lesson.id]
        assert client.lessons.get(lesson.id).reinforcements == 1
        client.slots.set("guidance", "be brief", project=project)
        client.slots.append("guidance", "be kind", project=project)
        assert client.slots.get("guidance", project=project).content == "be brief\nbe kind"
        with pytest.raises(Conflict):
            client.slots.set("guidance", "be long", project=project, overwrite=False)
        first = client.actions.create("Build", project=project)
        second = client.actions.create("Deploy", project=project, requires=[first.id])
        assert [one.id for one in client.frontier(project=project).items] == [first.id]
        client.actions.update(first.id, status="done")
        assert [one.id for one in client.frontier(project=project).items] == [second.id]
        client.sessions.end("s/1", project=project)
        assert client.sessions.summarise("s/1", project=project).summary.observation_count == 1
        assert client.sessions.summary("s/1", project=project).session_id == "s/1"
        assert "Pin the toolchain" in client.context(project).context
        assert project in {project.project for project in client.projects(page_size=1) if project.documents}
        assert {agent.agent_id for agent in client.agents(project)} == {"ada"}
        assert {event.type for event in client.events(project=project)} >= {"observation.recorded", "action.updated"}
        receipt = client.forget("project", project)
        assert client.receipts.wait(receipt.id).status == "done"
        assert list(client.memories.list(project)) == []


def test_agents_claim_work_in_turn_and_change_it_with_their_token(server: Server, project: str):
    with client_of(server) as ada, client_of(server, "bob") as bob:
        work = ada.actions.create("Rotate the keys", project=project, tags=["security"]).id
        claim = ada.actions.claim_next(project, labels=["security"], lease_seconds=60)
        assert claim is not None
        assert (claim.action.id, claim.action.holder) == (work, "ada")
        with pytest.raises(AlreadyClaimed) as raised:
            bob.actions.claim(work)
        assert (raised.value.holder, raised.value.expires_at) == ("ada", claim.expires_at)
        assert bob.actions.claim_next(project) is None
        assert ada.actions.renew(work, claim.token, lease_seconds=3600).token == claim.token
        ada.actions.release(work, claim.token)
        with pytest.raises(StaleToken):
            ada.actions.update(work, result="too late", token=claim.token)
        again = bob.actions.claim(work)
        assert bob.actions.complete(work, again.token, "All four.").version == again.version + 1
        assert bob.actions.get(work).result == "All four."


async def test_a_change_that_expects_another_version_changes_nothing(server: Server, project: str):
    async with AsyncMnemolog(server.url, SECRET, agent="ada", retry=PATIENT) as client:
        assert (await client.slots.set("plan", "one", project=project, expected_version=0)).version == 1
        with pytest.raises(VersionConflict) as raised:
            await client.slots.set("plan", "two", project=project, expected_version=0)
        assert (raised.value.version, raised.value.changed_by) == (1, "ada")
        assert (await client.slots.get("plan", project=project)).content == "one"


async def test_the_asyncio_client_reads_what_it_wrote(server: Server, project: str):
    async with AsyncMnemolog(server.url, SECRET, agent="ada", retry=PATIENT) as client:
        await asyncio.gather(*(client.add(f"{uuid4().hex} is word {n}", project=project) for n in range(10)))
        assert len([one async for one in client.memories.list(project)]) == 10
        assert (await client.health()).status in {"ready", "degraded"}


def test_refusals_are_errors_of_their_own(server: Server):
    with client_of(server) as client, pytest.raises(InvalidRequest) as raised:
        client.recall("tea", limit=0)
    assert raised.value.field == "limit"
    with Mnemolog(server.url, "not-the-secret") as client, pytest.raises(Unauthorized):
        client.recall("tea")


async def test_a_server_that_is_killed_loses_doubles_and_disorders_nothing_that_was_emitted(
    server: Server, project: str, tmp_path: Path
):
    """SIGKILL of the API, the worker and Valkey in the middle of 2,000 observations, and a start again."""
    supervisor = server.supervisor
    children = [child.pid for child in (supervisor.api, supervisor.worker, supervisor.valkey) if child is not None]
    with client_of(server) as client, client.emitter(tmp_path, batch_events=50, flush_every_s=0.01) as emitter:
        ids = [emitter.observe(f"s{n % SESSIONS}", str(n), project=project) for n in range(EVENTS // 2)]
        await wait_until(lambda: emitter.stats.accepted >= BEFORE_THE_KILL)
        for pid in children:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        ids += [emitter.observe(f"s{n % SESSIONS}", str(n), project=project) for n in range(EVENTS // 2, EVENTS)]
        await wait_until(lambda: isinstance(emitter.stats.trouble, Unreachable))

        def started_again() -> bool:
            supervisor.watch()
            return supervisor.ready()

        await wait_until(started_again, timeout_s=60)
        emitter.flush(60)
        assert emitter.stats.accepted + emitter.stats.duplicates == EVENTS
        assert emitter.stats.rejected == 0
        for session in range(SESSIONS):
            said = [observation.content for observation in client.sessions.observations(f"s{session}", project=project)]
            assert said == [str(n) for n in range(session, EVENTS, SESSIONS)]
        logged = Counter(event.event_id for event in client.events(project=project, type="observation.recorded"))
    assert logged == Counter(ids)
