"""Every route of the native API as a client meets it: the good answers, and what a reader may rely on."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from waiting import wait_until

from ingest.log.position import partition_of, project_route, session_route
from tests.acceptance.asking import all_pages, read, recall, write
from tests.acceptance.running import Server, fault, ids

WORDS = ["amber", "birch", "cobalt", "dahlia", "ember", "fennel", "garnet", "hazel", "indigo", "jasper", "kelp"]


# writing


@pytest.mark.parametrize(
    ("path", "command", "prefix"),
    [
        ("/v1/observations", {"session_id": "s1", "content": "the build is green"}, "obs_"),
        ("/v1/observations", {"session_id": "s1", "data": {"tool_name": "Bash", "exit": 0}}, "obs_"),
        ("/v1/memories", {"content": "we deploy on Tuesdays"}, "mem_"),
        ("/v1/lessons", {"content": "round last"}, "lsn_"),
        ("/v1/sessions", {"session_id": "s1", "status": "started"}, "s1"),
    ],
)
async def test_a_write_is_acknowledged_with_its_names_and_its_place(
    client: httpx.AsyncClient, project: str, path: str, command: dict[str, Any], prefix: str
):
    answer = await write(client, path, project=project, **command)
    outcome = {"superseded", "similar"} if path == "/v1/memories" else set[str]()
    assert sorted(answer.keys() - outcome) == ["duplicate", "durability", "event_id", "id", "position"]
    assert answer["id"].startswith(prefix)
    assert answer["event_id"]
    assert answer["duplicate"] is False
    partition, _, place = answer["position"].partition(":")
    assert partition.isdigit()
    assert [part.isdigit() for part in place.split("-")] == [True, True]


async def test_a_write_is_told_what_it_survives(client: httpx.AsyncClient, project: str):
    said = {"content": "tea", "project": project}
    for headers in ({}, {"X-Durability": "memory"}, {"X-Durability": "fsync"}):
        answer = await client.post("/v1/memories", json=said, headers=headers)
        assert (answer.status_code, answer.json()["durability"]) == (202, "fsync")  # as the embedded server writes
    batch = await client.post("/v1/events", json=[{"type": "remember", **said}], headers={"X-Durability": "fsync"})
    assert (batch.status_code, batch.json()["durability"]) == (202, "fsync")
    forgotten = await client.delete(f"/v1/memories/{answer.json()['id']}", headers={"X-Durability": "fsync"})
    assert (forgotten.status_code, forgotten.json()["durability"]) == (202, "fsync")


@pytest.mark.parametrize("wanted", ["granite", "", "fsync, fsync"])
async def test_an_unknown_durability_is_refused_by_name(client: httpx.AsyncClient, project: str, wanted: str):
    answer = await client.post(
        "/v1/memories", json={"content": "tea", "project": project}, headers={"X-Durability": wanted}
    )
    assert (answer.status_code, fault(answer)["field"]) == (422, "X-Durability")


async def test_the_caller_may_name_the_event_and_say_when_it_happened(client: httpx.AsyncClient, project: str):
    said = {
        "content": "the cache was cold",
        "session_id": "s1",
        "agent_id": "ada",
        "user_id": "kim",
        "kind": "error",
        "occurred_at": "2026-01-31T12:00:00+02:00",
        "event_id": f"{project}-first",
        "metadata": {"build": "17"},
        "data": {"exit": 2},
    }
    written = await write(client, "/v1/observations", project=project, **said)
    assert written["event_id"] == f"{project}-first"
    found = await read(client, f"/v1/observations/{written['id']}", after=written["position"])
    same = {name: found[name] for name in said if name not in ("occurred_at", "kind")}
    assert same == {name: value for name, value in said.items() if name not in ("occurred_at", "kind")}
    assert found["occurred_at"] == "2026-01-31T10:00:00Z"
    assert found["project"] == project


async def test_the_agent_of_the_header_speaks_where_the_body_names_none(server: Server, project: str):
    async with server.client("ada") as ada:
        written = await write(ada, "/v1/memories", project=project, content="Ada says so.")
        assert (await read(ada, f"/v1/memories/{written['id']}", after=written["position"]))["agent_id"] == "ada"
        written = await write(ada, "/v1/memories", project=project, content="Bob speaks here.", agent_id="bob")
        assert (await read(ada, f"/v1/memories/{written['id']}", after=written["position"]))["agent_id"] == "bob"


async def log_of(client: httpx.AsyncClient, project: str) -> AsyncGenerator[dict[str, Any]]:
    """Every event of a project that the log shows."""
    after = ""
    while True:
        page = await read(client, "/v1/events", after=after, limit=1000)
        for event in page["events"]:
            if event.get("project") == project:
                yield event
        if not page["events"]:
            return
        after = page["next"]


async def test_fifty_identical_writes_at_once_are_stored_once(client: httpx.AsyncClient, project: str):
    command = {"project": project, "session_id": "s1", "content": "exactly once", "event_id": project}
    answers = await asyncio.gather(*(client.post("/v1/observations", json=command) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    told = [answer.json() for answer in answers]
    assert len({(one["id"], one["event_id"], one["position"]) for one in told}) == 1
    assert [one["duplicate"] for one in told].count(False) == 1
    page = await read(client, "/v1/sessions/s1/observations", project=project, after=told[0]["position"])
    assert ids(page) == [told[0]["id"]]
    assert (await read(client, "/v1/sessions/s1", project=project))["observation_count"] == 1


# batches


BATCH: list[dict[str, Any]] = [
    {"type": "observe", "session_id": "s1", "content": "first things first"},
    {"type": "remember", "content": "second thoughts"},
    {"type": "lesson", "content": "third time lucky"},
    {"type": "session", "session_id": "s1", "status": "ended"},
]


@pytest.mark.parametrize(
    ("content_type", "encode"),
    [
        ("application/json", msgspec.json.encode),
        ("application/x-ndjson", msgspec.json.Encoder().encode_lines),
        ("application/msgpack", msgspec.msgpack.encode),
    ],
)
async def test_a_batch_has_one_token_for_all_of_it(
    client: httpx.AsyncClient, project: str, content_type: str, encode: Callable[[Any], bytes]
):
    body = encode([{**command, "project": project, "event_id": f"{project}-{n}"} for n, command in enumerate(BATCH)])
    for accepted, duplicates in ((4, 0), (0, 4)):
        answer = await client.post("/v1/events", content=body, headers={"content-type": content_type})
        assert answer.status_code == 202, answer.text
        told = answer.json()
        assert (told["accepted"], told["duplicates"], told["rejected"]) == (accepted, duplicates, [])
        kinds = ["lesson", "memory", "observation"]  # the session has ended, and may be summarised at any moment
        found = await recall(client, "first second third", project=project, after=told["position"], kinds=kinds)
        assert sorted(one["kind"] for one in found["results"]) == kinds
    assert (await read(client, "/v1/sessions/s1", project=project))["status"] == "ended"


async def test_an_empty_batch_is_accepted_and_has_nothing_to_wait_for(client: httpx.AsyncClient):
    answer = await client.post("/v1/events", json=[])
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 0, "duplicates": 0, "rejected": [], "position": "", "durability": "fsync"}


# read your writes


async def test_every_read_sees_the_write_whose_position_it_passes_on(client: httpx.AsyncClient, project: str):
    """No sleep between a write and each read of it."""
    for round_ in range(3):
        said = f"round {round_} of {project}"
        seen = await write(client, "/v1/observations", project=project, session_id="s1", content=said)
        after = seen["position"]
        assert (await read(client, "/v1/timeline", project=project, after=after))["items"][0]["id"] == seen["id"]
        page = await read(client, "/v1/sessions/s1/observations", project=project, after=after)
        assert ids(page)[-1] == seen["id"]
        assert (await read(client, "/v1/sessions/s1", project=project, after=after))["observation_count"] == round_ + 1
        assert ids(await read(client, "/v1/sessions", project=project, after=after)) == ["s1"]
        kept = await write(client, "/v1/memories", project=project, content=f"kept: {said} {WORDS[round_]}")
        found = await recall(client, f"kept {WORDS[round_]}", project=project, after=kept["position"])
        assert kept["id"] in ids(found)
        assert kept["id"] in ids(await read(client, "/v1/memories", project=project, after=kept["position"]))
        learned = await write(client, "/v1/lessons", project=project, content=f"lesson {WORDS[round_]}")
        compiled = await client.post("/v1/context", json={"project": project, "after": learned["position"]})
        assert f"lesson {WORDS[round_]}" in compiled.json()["context"]
        assert learned["id"] in ids(await read(client, "/v1/lessons", project=project, after=learned["position"]))
        found_lesson = await read(client, f"/v1/lessons/{learned['id']}", after=learned["position"])
        assert found_lesson["content"] == f"lesson {WORDS[round_]}"


async def test_a_position_of_the_future_is_answered_with_the_lag_unless_the_reader_does_not_care(
    broken: Server, project: str
):
    async with broken.client() as client:
        written = await write(client, "/v1/memories", project=project, content="here and now")
        partition, _, place = written["position"].partition(":")
        future = f"{partition}:{int(place.partition('-')[0]) + 3_600_000}-0"
        asked = {"query": "here", "project": project, "after": future}
        answer = await client.post("/v1/recall", json=asked)
        assert answer.status_code == 503
        assert fault(answer)["code"] == "projection_behind"
        assert fault(answer)["lag"] == {}
        assert int(answer.headers["retry-after"]) >= 1
        answer = await client.post("/v1/recall", json={**asked, "consistency": "eventual"})
        assert answer.status_code == 200


# recall


async def everything_about_tea(client: httpx.AsyncClient, project: str) -> dict[str, str]:
    """Documents that all match `tea`; returns their ids by name."""
    names: dict[str, str] = {}
    observed = {"session_id": "s1", "agent_id": "ada", "user_id": "kim", "content": "tea spilt"}
    elsewhere = {"session_id": "s2", "agent_id": "bob", "content": "tea ordered"}
    kept = {"agent_id": "ada", "content": "green tea is in the cupboard", "tags": ["kitchen"]}
    learned = {"agent_id": "bob", "content": "pour tea slowly", "tags": ["kitchen", "hands"]}
    commands: dict[str, tuple[str, dict[str, Any]]] = {
        "observed": ("/v1/observations", {**observed, "occurred_at": "2026-01-01T00:00:00Z"}),
        "elsewhere": ("/v1/observations", {**elsewhere, "occurred_at": "2026-02-01T00:00:00Z"}),
        "kept": ("/v1/memories", {**kept, "occurred_at": "2026-03-01T00:00:00Z"}),
        "learned": ("/v1/lessons", {**learned, "occurred_at": "2026-04-01T00:00:00Z"}),
    }
    tokens: list[str] = []
    for name, (path, command) in commands.items():
        written = await write(client, path, project=project, **command)
        names[name] = written["id"]
        tokens.append(written["position"])
    await recall(client, "tea", project=project, after=",".join(tokens))
    return names


ALLOWED: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"observed", "elsewhere", "kept", "learned"}),
    ({"kinds": ["memory"]}, {"kept"}),
    ({"kinds": ["observation", "lesson"]}, {"observed", "elsewhere", "learned"}),
    ({"kinds": ["summary"]}, set()),
    ({"tags": ["kitchen"]}, {"kept", "learned"}),
    ({"tags": ["hands"]}, {"learned"}),
    ({"tags": ["nobody's"]}, set()),
    ({"agent_id": "ada"}, {"observed", "kept"}),
    ({"session_id": "s1"}, {"observed"}),
    ({"user_id": "kim"}, {"observed"}),
    ({"from": "2026-02-01T00:00:00Z"}, {"elsewhere", "kept", "learned"}),
    ({"to": "2026-02-01T00:00:00Z"}, {"observed", "elsewhere"}),
    ({"from": "2026-02-01T00:00:00Z", "to": "2026-03-15T00:00:00Z"}, {"elsewhere", "kept"}),
    ({"agent_id": "ada", "kinds": ["memory"], "tags": ["kitchen"]}, {"kept"}),
    ({"mode": "lexical"}, {"observed", "elsewhere", "kept", "learned"}),
]


async def test_recall_finds_what_its_filters_allow(client: httpx.AsyncClient, project: str):
    names = await everything_about_tea(client, project)
    for asked, expected in ALLOWED:
        found = await recall(client, "tea", project=project, **asked)
        assert set(ids(found)) == {names[name] for name in expected}, asked


async def test_what_nobody_ever_said_is_called_probably_not_recorded_and_withheld_only_if_asked_to(
    client: httpx.AsyncClient, project: str
):
    for said in ("We use Kafka as message broker.", "The cart rounds each line.", "Deploys happen on Tuesdays."):
        kept = await write(client, "/v1/memories", project=project, content=said)
    asked = {"project": project, "after": kept["position"]}
    good = await recall(client, "Which message broker do we use?", min_confidence=None, **asked)
    assert good["results"][0]["content"] == "We use Kafka as message broker."
    assert good["certainty"] == "recorded"
    assert good["confidence"] >= good["results"][0]["confidence"] > 0.5
    never = await recall(client, "How do I bake sourdough bread?", min_confidence=None, **asked)
    assert len(never["results"]) == 3
    assert never["confidence"] < 0.22
    silent = await recall(client, "How do I bake sourdough bread?", min_confidence=0.5, **asked)
    assert silent["results"] == []
    sure = await recall(client, "Which message broker do we use?", min_confidence=0.5, **asked)
    assert all(one["confidence"] >= 0.5 for one in sure["results"])
    refused = await client.post("/v1/recall", json={"query": "tea", "min_confidence": 1.5})
    assert (refused.status_code, fault(refused)["field"]) == (422, "min_confidence")


async def test_results_have_at_most_so_many_tokens_and_the_others_are_counted(client: httpx.AsyncClient, project: str):
    kept = [
        await write(client, "/v1/memories", project=project, content=f"The {word} valve is shut. " * 30)
        for word in WORDS
    ]
    asked: dict[str, Any] = {"project": project, "after": kept[-1]["position"], "fold": False}
    free = await recall(client, "which valve is shut?", **asked)
    assert free["omitted"] is None
    short = await recall(client, "which valve is shut?", max_tokens=150, **asked)
    assert 0 < len(short["results"]) < len(free["results"])
    assert short["omitted"]["count"] == len(free["results"]) - len(short["results"])
    assert short["omitted"]["tokens"] > short["omitted"]["count"]
    assert all(one["content"] == one["snippet"] for one in short["results"])
    assert sum(len(one["title"] + one["content"]) for one in short["results"]) < 6 * 150
    nothing = await recall(client, "which valve is shut?", max_tokens=1, **asked)
    assert (nothing["results"], nothing["omitted"]["count"]) == ([], len(free["results"]))


async def test_a_recalled_document_says_what_it_is_and_explains_itself_when_asked(
    client: httpx.AsyncClient, project: str
):
    names = await everything_about_tea(client, project)
    found = await recall(client, "green tea", project=project, limit=2)
    assert len(found["results"]) == 2
    assert found["degraded"] == []
    assert found["took_ms"] >= 0
    best = found["results"][0]
    assert best["id"] == names["kept"]
    assert (best["kind"], best["agent_id"], best["project"]) == ("memory", "ada", project)
    assert (best["content"], best["occurred_at"]) == ("green tea is in the cupboard", "2026-03-01T00:00:00Z")
    assert "explain" not in best
    scores = [one["score"] for one in found["results"]]
    assert scores == sorted(scores, reverse=True)
    explained = await recall(client, "green tea", project=project, explain=True)
    assert all(one["explain"] for one in explained["results"])


async def test_recall_by_meaning_finds_what_shares_no_word(client: httpx.AsyncClient, project: str):
    for said in ("The automobile would not start this morning", "Quarterly revenue rose by nine percent"):
        await write(client, "/v1/memories", project=project, content=said)

    async def found_by_meaning() -> bool:
        found = await recall(client, "broken car", project=project, mode="vector", limit=1)
        return [one["content"] for one in found["results"]] == ["The automobile would not start this morning"]

    await wait_until(found_by_meaning)


async def test_a_half_life_lets_the_newer_of_two_equals_win(client: httpx.AsyncClient, project: str):
    now = datetime.now(UTC)
    said = {"old": timedelta(days=300), "new": timedelta(days=1)}
    names: dict[str, str] = {}
    after: list[str] = []
    for session, age in said.items():
        written = await write(
            client, "/v1/observations", project=project, session_id=session, content="the pump was primed",
            occurred_at=(now - age).isoformat(),
        )  # fmt: skip
        names[session] = written["id"]
        after.append(written["position"])
    found = await recall(client, "pump primed", project=project, half_life_days=10, after=",".join(after))
    assert ids(found) == [names["new"], names["old"]]


# memories, lessons, sessions, timeline


async def test_a_memory_is_returned_as_it_was_said(client: httpx.AsyncClient, project: str):
    said: dict[str, Any] = {
        "content": "Deploys happen on Tuesdays ☕\nnever on Fridays",
        "memory_type": "procedural",
        "purpose": "request",
        "tags": ["deploy"],
        "concepts": ["release"],
        "files": ["ci/deploy.yml"],
        "references": ["https://example.org/1"],
        "importance": 8.5,
        "user_id": "kim",
        "metadata": {"from": "stand-up"},
    }
    written = await write(client, "/v1/memories", project=project, agent_id="ada", ttl_days=2, **said)
    found = await read(client, f"/v1/memories/{written['id']}", after=written["position"])
    assert {name: found[name] for name in said} == said
    assert found["title"] == "Deploys happen on Tuesdays ☕"
    age = datetime.fromisoformat(found["forget_after"]) - datetime.now(UTC)
    assert timedelta(days=1.99) < age < timedelta(days=2)


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/lessons"])
async def test_the_pages_of_a_listing_are_complete_and_repeat_nothing(
    client: httpx.AsyncClient, project: str, path: str
):
    """Newest first; what is written while somebody pages does not shift the pages."""
    kind = {"/v1/memories": "remember", "/v1/lessons": "lesson"}[path]
    batch = [{"type": kind, "project": project, "content": f"{word} {n}"} for n, word in enumerate(WORDS)]
    told = (await client.post("/v1/events", json=batch)).json()
    first = await read(client, path, project=project, limit=4, after=told["position"])
    late = await write(client, path, project=project, content="latecomer")
    await read(client, path, project=project, after=late["position"])
    rest = await all_pages(client, path, project=project, limit=4, cursor=first["next"])
    said = [one["content"] for one in first["items"] + rest]
    assert said == [command["content"] for command in reversed(batch)]
    everything = await all_pages(client, path, project=project, limit=5)
    assert len({one["id"] for one in everything}) == len(everything) == len(WORDS) + 1
    assert everything[0]["content"] == "latecomer"


async def test_the_timeline_is_by_the_time_things_happened_over_all_sessions(client: httpx.AsyncClient, project: str):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [7, 2, 11, 0, 5, 9, 1, 10, 3, 8, 4, 6]
    batch = [
        {"type": "observe", "project": project, "session_id": f"s{hour % 5}", "content": f"hour {hour}",
         "occurred_at": (start + timedelta(hours=hour)).isoformat()}
        for hour in hours
    ]  # fmt: skip
    told = (await client.post("/v1/events", json=batch)).json()
    await read(client, "/v1/timeline", project=project, after=told["position"])
    found = await all_pages(client, "/v1/timeline", project=project, limit=5)
    assert [one["content"] for one in found] == [f"hour {hour}" for hour in range(11, -1, -1)]
    until = await read(client, "/v1/timeline", project=project, until=(start + timedelta(hours=3)).isoformat())
    assert [one["content"] for one in until["items"]] == ["hour 2", "hour 1", "hour 0"]


async def test_a_sessions_observations_come_in_the_order_they_were_recorded(client: httpx.AsyncClient, project: str):
    batch = [
        {"type": "observe", "project": project, "session_id": "s1", "content": f"step {n}",
         "occurred_at": f"2026-01-{31 - n:02d}T00:00:00Z"}
        for n in range(11)
    ]  # fmt: skip
    told = (await client.post("/v1/events", json=batch)).json()
    await read(client, "/v1/sessions/s1", project=project, after=told["position"])
    found = await all_pages(client, "/v1/sessions/s1/observations", project=project, limit=4)
    assert [one["content"] for one in found] == [f"step {n}" for n in range(11)]


async def test_sessions_are_listed_by_their_last_activity(client: httpx.AsyncClient, project: str):
    batch = [
        {"type": "observe", "project": project, "session_id": f"s{n}", "content": "x",
         "occurred_at": f"2026-01-{n + 1:02d}T00:00:00Z"}
        for n in range(7)
    ]  # fmt: skip
    batch.append({**batch[0], "occurred_at": "2026-02-01T00:00:00Z"})
    told = (await client.post("/v1/events", json=batch)).json()
    await read(client, "/v1/sessions", project=project, after=told["position"])
    found = await all_pages(client, "/v1/sessions", project=project, limit=3)
    assert [one["id"] for one in found] == ["s0", "s6", "s5", "s4", "s3", "s2", "s1"]


async def test_a_session_id_that_two_projects_use_needs_the_project(client: httpx.AsyncClient, project: str):
    session = f"{project}-s"
    one = await write(client, "/v1/observations", project=project, session_id=session, content="here")
    found = await read(client, f"/v1/sessions/{session}", after=one["position"])
    assert found["project"] == project
    two = await write(client, "/v1/observations", project=f"{project}-b", session_id=session, content="there")
    answer = await client.get(f"/v1/sessions/{session}", params={"after": two["position"]})
    assert answer.status_code == 422
    assert fault(answer)["field"] == "project"
    page = await read(client, f"/v1/sessions/{session}/observations", project=f"{project}-b")
    assert [one["content"] for one in page["items"]] == ["there"]


# forgetting


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/v1/memories", {"content": "the numbat hides in the attic"}),
        ("/v1/observations", {"session_id": "s1", "content": "the numbat hides in the attic", "data": {"x": "numbat"}}),
        ("/v1/lessons", {"content": "never wake the numbat", "context": "numbat season"}),
    ],
)
async def test_what_is_forgotten_is_gone_from_everywhere(
    client: httpx.AsyncClient, project: str, path: str, command: dict[str, Any]
):
    """Documents, listings, recall and the log; and a late repeat of the write does not bring it back."""
    event = {"project": project, "event_id": project, **command}
    written = await write(client, path, **event)
    where = f"{path}/{written['id']}"
    await read(client, where, after=written["position"])
    gone = await client.delete(where, params={"reason": "asked to"})
    assert gone.status_code == 202
    assert sorted(gone.json()) == ["duplicate", "durability", "event_id", "id", "position"]
    assert gone.json()["id"] == written["id"]
    after = gone.json()["position"]
    assert (await client.get(where, params={"after": after})).status_code == 404
    assert ids(await recall(client, "numbat", project=project)) == []
    assert (await client.delete(where)).status_code == 404
    if "session_id" in command:
        assert ids(await read(client, "/v1/timeline", project=project)) == []
        assert ids(await read(client, "/v1/sessions/s1/observations", project=project)) == []
        assert (await read(client, "/v1/sessions/s1", project=project))["observation_count"] == 0
    else:
        assert ids(await read(client, path, project=project)) == []
    left = [one async for one in log_of(client, project)]
    assert [one["type"] for one in left if one["type"] != "event.erased"] == ["subject.forgotten"]
    assert "numbat" not in str(left)
    again = await write(client, path, **event)
    assert again.items() <= {**written, "duplicate": True}.items()  # without what a memory did: it is forgotten
    assert (await client.get(where, params={"after": after})).status_code == 404


# the log


async def test_the_log_shows_every_event_once_and_says_where_to_go_on(client: httpx.AsyncClient, project: str):
    """Pages go partition by partition; following `next` from the beginning misses nothing and repeats nothing."""
    batch = [
        {"type": "observe", "project": project, "session_id": f"s{n % 7}", "content": f"event {n}"} for n in range(40)
    ]
    told = (await client.post("/v1/events", json=batch)).json()
    partitions = {partition_of(session_route("default", project, f"s{n}"), 16) for n in range(7)}
    assert set(told["position"].split(",")[0].split(":")[0]) <= set("0123456789")
    assert len(told["position"].split(",")) == len(partitions)
    for limit in (1000, 13):
        places: list[str] = []
        contents: list[str] = []
        after = ""
        while page := await read(client, "/v1/events", after=after, limit=limit):
            if not page["events"]:
                break
            assert len(page["events"]) <= limit
            after = page["next"]
            for event in page["events"]:
                places.append(event["position"])
                if event.get("project") == project:
                    contents.append(event["data"]["content"])
        assert len(set(places)) == len(places)
        assert sorted(contents) == sorted(command["content"] for command in batch)
    assert of_clients(await read(client, "/v1/events", after=after)) == []


def of_clients(page: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a page without those of the server's own upkeep, which may come at any moment."""
    return [event for event in page["events"] if event.get("source") != "upkeep"]


async def test_the_log_can_be_filtered(client: httpx.AsyncClient, project: str):
    session = f"{project}-s"
    seen = await write(client, "/v1/observations", project=project, session_id=session, content="x")
    await write(client, "/v1/sessions", project=project, session_id=session, status="ended")
    both = of_clients(await read(client, "/v1/events", session_id=session, limit=1000))
    assert [event["type"] for event in both] == ["observation.recorded", "session.ended"]
    only = (await read(client, "/v1/events", session_id=session, type="session.ended", limit=1000))["events"]
    assert [event["type"] for event in only] == ["session.ended"]
    partition = int(seen["position"].partition(":")[0])
    behind = await read(client, "/v1/events", session_id=session, partition=partition, after=seen["position"])
    assert [event["type"] for event in of_clients(behind)] == ["session.ended"]
    other = await read(client, "/v1/events", session_id=session, partition=(partition + 1) % 16)
    assert other["events"] == []


async def test_an_event_of_the_log_carries_its_envelope(client: httpx.AsyncClient, project: str):
    session = f"{project}-s"
    said = {"project": project, "session_id": session, "agent_id": "ada", "user_id": "kim", "trace": "t-1"}
    seen = await write(client, "/v1/observations", **said, content="x", metadata={"a": "b"}, event_id=project)
    (event,) = (await read(client, "/v1/events", session_id=session, limit=1000))["events"]
    assert event["position"] == seen["position"]
    assert {name: event[name] for name in said} == said
    assert (event["type"], event["version"], event["tenant"]) == ("observation.recorded", 1, "default")
    assert (event["event_id"], event["metadata"]) == (project, {"a": "b"})
    assert event["data"] == {"content": "x"}
    assert datetime.fromisoformat(event["recorded_at"]) <= datetime.now(UTC) + timedelta(seconds=1)


# operators


async def test_every_partition_says_how_far_it_is(client: httpx.AsyncClient, project: str):
    written = await write(client, "/v1/memories", project=project, content="progress")
    partition, _, place = written["position"].partition(":")
    await recall(client, "progress", project=project, after=written["position"])
    rows = (await read(client, "/v1/admin/projections"))["partitions"]
    assert [row["partition"] for row in rows] == list(range(16))
    row = rows[int(partition)]
    assert (row["head"], row["checkpoint"], row["searchable"]) == (place, place, place)
    assert (row["lag"], row["dead_letters"]) == (0, 0)
    assert row["worker"]
    assert int(partition) == partition_of(project_route("default", project), 16)


async def test_a_snapshot_can_be_ordered(server: Server, client: httpx.AsyncClient):
    answer = await client.post("/v1/admin/snapshots")
    assert answer.status_code == 202
    assert list(answer.json()) == ["queued"]
    await wait_until(lambda: any((server.data_dir / "snapshots").glob("*")))


async def test_readiness_says_how_much_is_indexed(client: httpx.AsyncClient, project: str):
    written = await write(client, "/v1/memories", project=project, content="one document at least")
    await read(client, f"/v1/memories/{written['id']}", after=written["position"])

    async def ready() -> bool:
        return (await read(client, "/readyz"))["status"] == "ready"

    await wait_until(ready)  # other tests' events may be late just now
    found = await read(client, "/readyz")
    assert found["documents"] >= 1
    assert found["vitals"]["workers"] == 1
    assert 0 < found["vitals"]["memory_used"] < found["vitals"]["machine_memory"]


async def test_a_recall_after_a_context_of_its_project_counts_as_a_followup(client: httpx.AsyncClient, project: str):
    async def followups() -> float:
        text = (await client.get("/metrics")).text
        return float(re.findall(r"^mnemolog_context_followups_total(?:{[^}]*})? (\S+)$", text, re.MULTILINE)[0])

    await client.post("/v1/context", json={"project": project})
    before = await followups()
    await client.post("/v1/recall", json={"query": "deploys", "project": project})
    await client.post("/v1/recall", json={"query": "deploys", "project": f"{project}-other"})
    await client.post("/v1/recall", json={"query": "deploys", "project": project, "prompt_of": "s1"})
    assert await followups() == before + 1


async def test_metrics_are_prometheus_text_and_count_by_route(client: httpx.AsyncClient, project: str):
    written = await write(client, "/v1/memories", project=project, content="to be counted")
    await client.get(f"/v1/memories/{written['id']}")
    await client.get("/v1/no-such-route")
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {
        "mnemolog_http_requests",
        "mnemolog_http_request_duration_seconds",
        "mnemolog_append_waiting_events",
        "mnemolog_index_documents",
        "mnemolog_index_ready",
        "mnemolog_projection_lag_events",
        "mnemolog_dead_letters",
        "mnemolog_dead_letter_changes",
    } <= set(families)
    (ready,) = families["mnemolog_index_ready"].samples
    assert ready.value == 1
    lag = families["mnemolog_projection_lag_events"].samples
    assert {sample.labels["partition"] for sample in lag} == {str(n) for n in range(16)}
    counted = families["mnemolog_http_requests"].samples
    routes = {sample.labels["route"] for sample in counted}
    assert {"/v1/memories", "/v1/memories/{id}", "unmatched"} <= routes
    assert not any(project in route or written["id"] in route for route in routes)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/no-such-route"), ("POST", "/v1/events"), ("POST", "/mcp")])
async def test_only_the_secret_as_a_bearer_lets_in(server: Server, method: str, path: str):
    """The authorization walk asks every route for it."""
    basic = base64.b64encode(f"user:{server.secret}".encode()).decode()
    given = ["", "Bearer", "Bearer wrong", server.secret, f"Bearer {server.secret}x", f"Basic {basic}"]
    async with server.client(secret="") as http:
        for authorization in given:
            headers = {"authorization": authorization} if authorization else {}
            answer = await http.request(method, path, headers=headers, content=b"[]" if method == "POST" else None)
            assert answer.status_code == 401, authorization
            assert fault(answer)["code"] == "unauthorized"
            assert "MNEMOLOG_SECRET" in fault(answer)["detail"]
            assert server.secret not in answer.text
            assert answer.headers["www-authenticate"] == "Bearer"


LISTINGS = ["memories", "lessons", "actions", "sessions", "summaries", "commits", "relations", "timeline"]


async def test_names_without_documents_are_noted_in_recall_contexts_and_listings(
    client: httpx.AsyncClient, project: str
):
    written = await write(client, "/v1/memories", project=project, content="we deploy on Tuesdays")
    after, unknown = written["position"], f"{project}x"
    said = [f"project '{unknown}' has no searchable documents that you can read; similar: '{project}'"]
    asked = {"query": "deploys", "project": unknown, "after": after}
    assert (await client.post("/v1/recall", json=asked)).json()["notes"] == said
    assert (await client.post("/v1/context", json={"project": unknown})).json()["notes"] == said
    for name in LISTINGS:
        page = (await client.get(f"/v1/{name}", params={"project": unknown})).json()
        assert (page["items"], page["notes"]) == ([], said), name
        assert "notes" not in (await client.get(f"/v1/{name}", params={"project": project})).json(), name
    assert (await client.post("/v1/context", json={"project": project})).json()["notes"] == []
