"""Forgetting a session, a user, a project: everything of them is deleted everywhere, with a receipt.

The last tests plant a mark in every text of every noun of a user, a project, a session, and of one memory that was
condensed with others. Once the receipts say `done`, every byte that the server stores is searched for the mark, packed
files unpacked; then all partitions are rebuilt from the log and everything is searched again. Documents of others are
unchanged. Names of projects, sessions and agents, and event ids, are not planted, since they stay in the stubs of the
log; names of users are."""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest
import zstandard
from waiting import wait_until

from ingest.log.keys import embedding
from ingest.platform.connections import Client as RedisClient
from ingest.platform.connections import connect
from projections.text.terms import terms
from projections.vectors.embedder import cache_key
from tests.acceptance.asking import read, recall, refused, run_job, write
from tests.acceptance.running import Server, ids, running
from tests.acceptance.test_visibility_matrix import READS
from tests.acceptance.visibility import Planted

Client = httpx.AsyncClient


async def forget(client: Client, **wanted: Any) -> dict[str, Any]:
    """The receipt of a forgetting that is done."""
    answer = await client.post("/v1/forget", json=wanted)
    assert answer.status_code == 202, answer.text
    asked = answer.json()
    assert asked["status"] == "pending"

    async def done() -> bool:
        receipt = await read(client, f"/v1/forget/{asked['id']}")
        assert not receipt["error"], receipt
        return receipt["status"] == "done"

    await wait_until(done, 90)
    return await read(client, f"/v1/forget/{asked['id']}")


async def log_of(client: Client, project: str) -> list[dict[str, Any]]:
    """What the log shows of a project."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await read(client, "/v1/events", after=after, limit=1000, project=project)
        found += page["events"]
        if page["next"] in (None, after):
            return found
        after = page["next"]


async def life(client: Client, project: str, user: str) -> str:
    """Something of every kind about a user, and something that is not; the position behind all of it."""
    about = {"project": project, "user_id": user}
    tokens: list[str] = []
    seen = await write(client, "/v1/observations", **about, session_id="s1", content="The walrus asked for ice")
    tokens.append(seen["position"])
    for path, said in [
        ("/v1/observations", {**about, "session_id": "s1", "content": "The walrus was given ice"}),
        ("/v1/memories", {**about, "content": "The walrus likes ice"}),
        ("/v1/lessons", {**about, "content": "Keep ice for the walrus"}),
        ("/v1/slots", {**about, "label": "guidance", "content": "Ask the walrus first"}),
        ("/v1/actions", {**about, "title": "Order ice for the walrus"}),
        ("/v1/commits", {**about, "commit": "abc", "message": "walrus ice", "session_id": "s1"}),
        ("/v1/relations", {**about, "source": "concept:walrus", "target": "concept:ice", "relation": "likes"}),
        ("/v1/observations", {"project": project, "session_id": "s2", "content": "The heron wanted nothing"}),
        ("/v1/memories", {"project": project, "content": "The heron eats at dawn"}),
    ]:
        tokens.append((await write(client, path, **said))["position"])
    after = ",".join(tokens)
    await read(client, "/v1/timeline", project=project, after=after)
    return after


def checked(receipt: dict[str, Any], **documents: int) -> None:
    """Check that a receipt says so many documents went, from every store, and that nothing of them is found."""
    assert receipt["finished_at"]
    assert receipt["name"] == ""
    removed = receipt["removed"]
    assert {kind: count for kind, count in removed["documents"].items() if kind != "event"} == documents
    own_entries = {kind: count for kind, count in documents.items() if kind != "session"}  # it opened by itself
    assert removed["log_entries"] >= sum(own_entries.values())
    assert removed["snapshot"]
    assert removed["replicas"] >= 1
    assert removed["replicas_waiting"] == 0
    assert removed["append_only_file"] == "being rewritten"
    assert receipt["probe"]["found"] == 0
    assert receipt["probe"]["documents"] >= sum(documents.values())
    assert receipt["probe"]["queries"] >= 1


async def test_a_forgotten_user_is_gone_from_everywhere(server: Server, client: Client, project: str):
    """What names somebody else stays; the user's name is not even in the receipt or the tombstones."""
    user = f"user-{project}"
    await life(client, project, user)
    receipt = await forget(client, kind="user", subject=user, reason="asked to")
    checked(receipt, observation=2, session=1, memory=1, lesson=1, slot=1, action=1, commit=1, relation=1)
    assert receipt["subject"].startswith("usr_")
    assert receipt["reason"] == "asked to"
    found = await recall(client, "walrus ice heron", project=project)
    assert {one["content"] for one in found["results"]} == {"The heron wanted nothing", "The heron eats at dawn"}
    for path in ("lessons", "actions", "commits", "relations"):
        assert (await read(client, f"/v1/{path}", project=project))["items"] == []
    assert ids(await read(client, "/v1/sessions", project=project)) == ["s2"]
    log = await log_of(client, project)
    assert "walrus" not in str(log)
    assert user not in str(log)
    redis = connect(server.redis_url)
    try:
        receipts = await redis.hgetall("mnemolog:receipts")
    finally:
        await redis.aclose()
        await cast(Any, redis).connection_pool.disconnect()
    assert user not in str(receipts)


async def test_a_forgotten_project_is_empty(client: Client, project: str):
    await life(client, project, "kim")
    await life(client, f"{project}-other", "kim")
    receipt = await forget(client, kind="project", subject=project)
    checked(receipt, observation=3, session=2, memory=2, lesson=1, slot=1, action=1, commit=1, relation=1)
    assert receipt["subject"] == project
    assert ids(await recall(client, "walrus ice heron", project=project)) == []
    assert (await read(client, "/v1/sessions", project=project))["items"] == []
    assert {one["type"] for one in await log_of(client, project)} == {"subject.forgotten", "event.erased"}
    assert len((await recall(client, "walrus ice heron", project=f"{project}-other"))["results"]) > 3
    told = await write(client, "/v1/observations", project=project, session_id="s1", content="The walrus is new here")
    seen = await read(client, "/v1/sessions/s1", project=project, after=told["position"])
    assert seen["observation_count"] == 1


async def test_a_forgotten_session_leaves_the_others(client: Client, project: str):
    await life(client, project, "kim")
    receipt = await forget(client, kind="session", subject="s1", project=project)
    checked(receipt, observation=2, session=1, commit=1)
    assert (receipt["kind"], receipt["subject"], receipt["project"]) == ("session", "s1", project)
    assert ids(await read(client, "/v1/sessions", project=project)) == ["s2"]
    assert len((await read(client, "/v1/memories", project=project))["items"]) == 2


async def test_forgetting_what_is_not_there_says_so(client: Client, project: str):
    wanted = {"kind": "session", "subject": "nobodys", "project": project}
    assert (await refused(client, "POST", "/v1/forget", wanted))[:2] == (404, "not_found")
    receipt = await forget(client, kind="user", subject=f"nobody-{project}")
    assert (receipt["removed"]["documents"], receipt["probe"]["found"]) == ({}, 0)
    assert (await refused(client, "GET", "/v1/forget/no-such-receipt"))[:2] == (404, "not_found")
    later = await forget(client, kind="user", subject=f"nobody-else-{project}")
    listed = await read(client, "/v1/forget", limit=1)
    assert (listed["items"], listed["next"]) == ([later], later["id"])
    assert (await read(client, "/v1/forget", cursor=later["id"]))["items"][0] == receipt
    assert (await refused(client, "GET", "/v1/forget", cursor="nobodys"))[:2] == (422, "invalid")


async def test_a_receipt_never_shows_the_name_of_a_user(client: Client, project: str):
    answer = await client.post("/v1/forget", json={"kind": "user", "subject": f"kim-{project}"})
    assert answer.status_code == 202
    assert f"kim-{project}" not in answer.text
    assert f"kim-{project}" not in (await client.get("/v1/forget")).text


async def test_a_purge_can_be_ordered(client: Client):
    answer = await client.post("/v1/admin/purge")
    assert answer.status_code == 202
    assert list(answer.json()) == ["queued"]


PARTITIONS = 4
MARK = "zqxvkmarker7"
"""In all that is forgotten; index terms are stems, and it is its own."""
USER, SESSION, GONE, STAYS = f"kim-{MARK}", "gone-session", "gone-project", "atlas"


EPISODES = [
    f"On Monday lee planted {MARK} in the garden.",
    "On Tuesday lee painted the long fence.",
    "On Wednesday lee repaired a kettle.",
    "On Thursday lee sailed to the island.",
]
"""Above the threshold: the first three are condensed."""


class Texts(NamedTuple):
    """What is written about one subject: every text has the mark, every name is the caller's."""

    mark: str
    project: str
    session: str
    user: str = ""

    @property
    def who(self) -> dict[str, Any]:
        """The names and free texts that every command takes."""
        return {
            "project": self.project,
            "agent_id": "ada",
            "user_id": self.user,
            "metadata": {f"{self.mark} name": f"{self.mark} value"},
            "trace": f"{self.mark} trace",
        }


def test_the_marker_is_its_own_stem():
    assert terms(f"{MARK.upper()} once") == [MARK, "onc"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with nothing else on it, which condenses above three memories and archives, looking every second."""
    cache = tmp_path_factory.mktemp("cache")
    changes: dict[str, Any] = {"condense_threshold": 3, "condense_batch": 3, "condense_every": 1, "purge_every": 1}
    changes |= {"archive": str(tmp_path_factory.mktemp("archive")), "archive_after": 0}
    with running(cache, partitions=PARTITIONS, **changes) as started:
        yield started


@pytest.fixture
async def redis(server: Server) -> AsyncIterator[RedisClient]:
    client = connect(server.redis_url)
    yield client
    await client.aclose()
    await cast(Any, client).connection_pool.disconnect()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client("ada") as http:
        yield http


async def send(client: httpx.AsyncClient, method: str, path: str, **body: Any) -> dict[str, Any]:
    """The good answer to a request."""
    answer = await client.request(method, path, json=body or None)
    assert answer.status_code in (200, 202), f"{method} {path}: {answer.text}"
    return answer.json()


async def plant(client: httpx.AsyncClient, said: Texts) -> dict[str, str]:
    """One of every noun, with the mark in each of its texts, changed once; the ids by collection."""
    m, who = said.mark, said.who
    in_session = {**who, "session_id": said.session}
    await send(
        client, "POST", "/v1/sessions", status="started", cwd=f"/{m}/cwd", title=f"{m} title", agent_type=f"{m} type",
        **in_session,
    )  # fmt: skip
    seen: list[str] = []
    for n, tool in enumerate(("Edit", "Bash", "Edit")):
        data = {
            "tool_name": tool,
            "tool_input": {"file_path": f"src/{m}.py", "command": f"make {m} {n}"},
            "prompt": f"todo: {m} prompt number {n}",
            "error": f"{m} failed {n}",
        }
        one = await send(
            client, "POST", "/v1/observations", kind=f"{m} kind", data=data, **in_session,
            content=f"todo: decided that {m} observation {n} about {m.upper()} is important",
        )  # fmt: skip
        seen.append(one["id"])
    memory = await send(
        client, "POST", "/v1/memories", content=f"{m} memory. {m} prefers tea.", title=f"{m} title",
        tags=[f"{m} tag", "preference", "bug"], concepts=[f"{m} concept"], files=[f"{m}/file.py"],
        references=[f"{m} reference"], keep_duplicates=True, session_id=said.session, **who,
    )  # fmt: skip
    newer = await send(client, "PATCH", f"/v1/memories/{memory['id']}", content=f"{m} newer", title=f"{m} newer title")
    await send(client, "PATCH", f"/v1/memories/{newer['id']}", visibility="shared", shared_with=[f"{m} friend"])
    lesson = await send(
        client, "POST", "/v1/lessons", content=f"{m} lesson", context=f"{m} context", title=f"{m} title",
        tags=[f"{m} tag"], severity="warning", trigger_tool=f"{m} tool", trigger_pattern=f"{m}.*pattern",
        origin=f"{m} origin", **who,
    )  # fmt: skip
    await send(client, "PATCH", f"/v1/lessons/{lesson['id']}", context=f"{m} newer context")
    await send(client, "POST", f"/v1/lessons/{lesson['id']}/reinforce")
    await send(client, "POST", f"/v1/lessons/{lesson['id']}/trigger")
    slot = {"label": f"slot_{m}", "description": f"{m} description"}
    await send(client, "POST", "/v1/slots", content=f"{m} slot", **slot, **who)
    await send(client, "POST", "/v1/slots", content=f"{m} line", append=True, label=slot["label"], **who)
    removed = await send(client, "POST", "/v1/slots", content=f"{m} slot to go", label=f"brief_{m}", **who)
    await send(client, "DELETE", f"/v1/slots/brief_{m}?project={said.project}")
    action = await send(
        client, "POST", "/v1/actions", title=f"{m} action", description=f"{m} description", tags=[f"{m} tag"], **who
    )
    await send(
        client, "PATCH", f"/v1/actions/{action['id']}", status="done", result=f"{m} result; learned: {m} is fragile"
    )
    relation = await send(
        client, "POST", "/v1/relations", source=newer["id"], target=f"concept:{m}", relation=f"{m} says", **who
    )
    commit = await send(
        client, "POST", "/v1/commits", commit=f"{m}c0ffee", message=f"{m} message", branch=f"{m}-branch",
        repo=f"{m}-repo", author=f"{m} author", authored_at=f"{m} day", files=[f"{m}.py"], **in_session,
    )  # fmt: skip
    await send(client, "POST", "/v1/crystals", action_ids=[action["id"]])
    await send(client, "POST", "/v1/sessions", status="ended", reason=f"{m} reason", **in_session)
    await send(client, "POST", f"/v1/sessions/{said.session}/summary", project=said.project)
    await send(client, "POST", f"/v1/sessions/{said.session}/reflect", project=said.project)
    await run_job(client, "/v1/consolidate", project=said.project, min_observations=1)
    await run_job(client, "/v1/reflect", project=said.project)
    assert removed["id"] != slot["label"]
    return {
        **{f"observations/{name}": name for name in seen},
        **{f"memories/{one['id']}": one["id"] for one in (memory, newer)},
        f"lessons/{lesson['id']}": lesson["id"],
        f"actions/{action['id']}": action["id"],
        f"relations/{relation['id']}": relation["id"],
        f"commits/{commit['id']}": commit["id"],
        f"slots/slot_{m}?project={said.project}": "",
        f"sessions/{said.session}?project={said.project}": "",
    }


async def live(client: httpx.AsyncClient) -> list[str]:
    """Four episodic memories of one agent about a user; one has the mark. Three are condensed."""
    return [
        (await send(client, "POST", "/v1/memories", content=text, memory_type="episodic", project=STAYS, agent_id="ada",
                    user_id="lee", keep_duplicates=True))["id"]
        for text in EPISODES
    ]  # fmt: skip


# where bytes are


async def in_valkey(redis: RedisClient, wanted: bytes) -> list[str]:
    """The keys that contain it, in their name or their value, whatever their type."""
    server, found = cast(Any, redis), list[str]()
    async for key in redis.scan_iter(match="*", count=1000):
        match (await server.type(key)).decode():
            case "string":
                value = await server.get(key)
            case "hash":
                value = await server.hgetall(key)
            case "set":
                value = await server.smembers(key)
            case "zset":
                value = await server.zrange(key, 0, -1)
            case "list":
                value = await server.lrange(key, 0, -1)
            case "stream":
                value = await server.xrange(key)
            case "none":  # it has expired
                value = b""
            case other:
                raise AssertionError(f"what is a {other}?")
        if wanted in (key + repr(value).encode()).lower():
            found.append(key.decode())
    return sorted(found)


def in_files(folder: Path, wanted: bytes) -> list[str]:
    """The files that contain it, packed ones unpacked, and those that have it in their path."""
    found: list[str] = []
    for path in files_below(folder):
        name = str(path.relative_to(folder))
        if path.is_socket():
            continue
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # a snapshot is written beside, renamed, and deleted
            continue
        if path.suffix == ".zst":
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        if wanted in name.encode().lower() + b"\0" + content.lower():
            found.append(name)
    return found


def index_files(folders: dict[str, Path]) -> set[tuple[str, int]]:
    """The files of snapshots and replicas, each with when it was written.

    What an index file says cannot be read off its bytes, which are packed. That it is a new one can.
    """
    found: set[tuple[str, int]] = set()
    for path in (*files_below(folders["data"] / "snapshots"), *files_below(folders["replicas"])):
        with contextlib.suppress(FileNotFoundError):  # a snapshot is written beside, renamed, and deleted
            found.add((path.name, path.stat().st_mtime_ns))
    return found


def files_below(folder: Path) -> list[Path]:
    """All files in a folder and its folders, some of which may vanish meanwhile."""
    return sorted(Path(where) / name for where, _, names in os.walk(folder) for name in names)


def everywhere(server: Server) -> dict[str, Path]:
    """The folders where the server keeps anything."""
    settings = server.supervisor.settings
    return {
        "data": settings.data_dir,
        "replicas": settings.cache_dir / "replicas",
        "cache": settings.cache_dir,
        "archive": Path(settings.archive),
    }


async def exported(client: httpx.AsyncClient) -> bytes:
    """The log, whoever may read it."""
    return (await client.get("/v1/admin/export")).content


async def answers(client: httpx.AsyncClient, planted: Planted) -> dict[str, bytes]:
    """What every way of reading says."""
    found = {f"{read.path} ({read.how})": await read.ask(client, planted) for read in READS}
    for project in (GONE, STAYS):
        for name in ("memories?", "lessons?retired=true&", "slots?", "actions?", "relations?", "commits?", "summaries?",
                     "sessions?", "timeline?", "frontier?", "lessons/surest?", "audit?operation=*&"):  # fmt: skip
            path = f"/v1/{name}project={project}"
            found[path] = (await client.get(path)).content
        for body in ({"query": MARK, "project": project}, {"query": MARK, "mode": "vector"}):
            answer = await client.post("/v1/recall", json=body)
            found[f"recall {body}"] = answer.content
    for session in (SESSION, "their-session", "kept-session"):
        for part in ("", "/observations", "/summary"):
            found[f"{session}{part}"] = (await client.get(f"/v1/sessions/{session}{part}")).content
    for path in ("/v1/diagnose", "/v1/forget", "/v1/admin/dead-letters", "/metrics"):
        found[path] = (await client.get(path)).content
    return found


async def projected(client: httpx.AsyncClient) -> bool:
    """Whether everything is folded, embedded and searchable."""
    rows = (await client.get("/v1/admin/projections")).json()["partitions"]
    return all(not row["lag"] and not row["to_embed"] and row["searchable"] == row["checkpoint"] for row in rows)


async def rewritten(redis: RedisClient) -> bool:
    """Whether the append-only file is not being rewritten, nor about to be."""
    told = await redis.info("persistence")
    return not told["aof_rewrite_in_progress"] and not told["aof_rewrite_scheduled"]


async def kept_as_it_was(client: httpx.AsyncClient, names: dict[str, str]) -> dict[str, Any]:
    """What is at every address."""
    found: dict[str, Any] = {}
    for path in names:
        answer = await client.get(f"/v1/{path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"
        found[path] = answer.json()
    return found


async def test_nothing_is_left_of_what_was_forgotten(server: Server, client: httpx.AsyncClient, redis: RedisClient):
    """A user, a project, a session and a single memory; then a replay of everything."""
    wanted, folders = MARK.encode(), everywhere(server)
    kept = await plant(client, Texts("zqxvkstays7", STAYS, "kept-session", "lee"))
    await wait_until(lambda: projected(client), 60)
    cached = await _vectors(redis)
    episodes = await live(client)
    by_user = await plant(client, Texts(MARK, STAYS, "their-session", USER))
    by_project = await plant(client, Texts(MARK, GONE, "a-session"))
    by_session = await _in_session(client)
    await wait_until(lambda: _condensed(client, episodes[0]))
    await wait_until(lambda: projected(client), 60)
    await send(client, "POST", "/v1/admin/snapshots")
    await wait_until(lambda: bool(in_files(folders["data"] / "snapshots", wanted)), 60)
    await wait_until(lambda: bool(in_files(folders["archive"], wanted)), 60)
    before = await kept_as_it_was(client, kept)

    assert await in_valkey(redis, wanted), "the search would prove nothing"
    old_files = index_files(folders)
    assert old_files
    assert wanted in await exported(client)
    assert len(await _vectors(redis)) > len(cached)

    receipts = [
        await send(client, "POST", "/v1/forget", kind=kind, subject=subject)
        for kind, subject in (("user", USER), ("project", GONE), ("session", SESSION))
    ]
    assert (await client.delete(f"/v1/memories/{episodes[0]}")).status_code == 202
    await wait_until(lambda: _done(client, receipts), 90)
    for receipt in receipts:
        told = await send(client, "GET", f"/v1/forget/{receipt['id']}")
        assert told["error"] == ""
        assert told["probe"]["found"] == 0
        assert (told["removed"]["replicas"], told["removed"]["replicas_waiting"]) == (1, 0)
        assert told["removed"]["log_entries"] > 0
    await wait_until(lambda: _purged(redis), 60)
    await wait_until(lambda: rewritten(redis))
    await wait_until(lambda: projected(client), 60)

    assert not (left := old_files & index_files(folders)), f"index files from before the forgetting: {left}"
    gone = Planted("public", MARK, "garden", STAYS, episodes[0], episodes[1], "0:0-0", f"rel_{0:020x}")
    await assert_nothing_left(server, client, redis, gone)
    # not all that were cached: summaries and insights of what stays can be made again in between, with other texts
    others = _vectors_of(EPISODES[1:], folders["data"] / "snapshots")
    vectors = await _vectors(redis)
    assert vectors <= cached | others, "none of forgotten texts"
    assert others <= vectors, "those of the other memories"
    for path in {**by_user, **by_project, **by_session, f"memories/{episodes[0]}": ""}:
        assert (await client.get(f"/v1/{path}")).status_code == 404, path
    assert await kept_as_it_was(client, kept) == before
    assert in_files(folders["archive"], b"zqxvkstays7"), "what belongs to others is still archived"
    for memory in episodes[1:]:
        assert (await send(client, "GET", f"/v1/memories/{memory}"))["superseded_by"] == "", "what stood for it is gone"

    await send(client, "POST", "/v1/admin/rebuilds")
    await wait_until(lambda: _rebuilt(client), 60)
    await wait_until(lambda: projected(client), 60)
    await assert_nothing_left(server, client, redis, gone)
    assert await kept_as_it_was(client, kept) == before


async def assert_nothing_left(server: Server, client: httpx.AsyncClient, redis: RedisClient, gone: Planted) -> None:
    """Search everything."""
    wanted = MARK.encode()
    assert await in_valkey(redis, wanted) == []
    for name, folder in everywhere(server).items():
        assert in_files(folder, wanted) == [], name
    assert wanted not in (await exported(client)).lower()
    told = {path: said for path, said in (await answers(client, gone)).items() if wanted in said.lower()}
    assert told == {}


async def _in_session(client: httpx.AsyncClient) -> dict[str, str]:
    """Another session of a project that stays, and what is of it alone: no memory, lesson, slot or action is."""
    who = Texts(MARK, STAYS, SESSION).who | {"session_id": SESSION}
    names: list[str] = []
    for n in range(3):
        content = f"todo: {MARK} decided to look at src/{MARK}.py again, number {n}"
        names.append((await send(client, "POST", "/v1/observations", content=content, **who))["id"])
    commit = await send(client, "POST", "/v1/commits", commit=f"{MARK}beef", message=f"{MARK} message", **who)
    await send(client, "POST", "/v1/sessions", status="ended", title=f"{MARK} title", **who)
    await send(client, "POST", f"/v1/sessions/{SESSION}/summary")
    await send(client, "POST", f"/v1/sessions/{SESSION}/reflect")
    await run_job(client, "/v1/consolidate", project=STAYS, min_observations=1)
    paths = [*(f"observations/{name}" for name in names), f"commits/{commit['id']}", f"sessions/{SESSION}"]
    return dict.fromkeys(paths, "")


async def _condensed(client: httpx.AsyncClient, memory: str) -> bool:
    return bool((await client.get(f"/v1/memories/{memory}")).json()["superseded_by"])


async def _done(client: httpx.AsyncClient, receipts: list[dict[str, Any]]) -> bool:
    told = [await send(client, "GET", f"/v1/forget/{receipt['id']}") for receipt in receipts]
    return all(one["status"] == "done" for one in told)


async def _rebuilt(client: httpx.AsyncClient) -> bool:
    rows = (await client.get("/v1/admin/projections")).json()["partitions"]
    return all(row["generation"] == 2 for row in rows)


async def _purged(redis: RedisClient) -> bool:
    return not [key async for key in redis.scan_iter(match="mnemolog:{p*}:purg*", count=1000)]


async def _vectors(redis: RedisClient) -> set[bytes]:
    return {key async for key in redis.scan_iter(match="mnemolog:vec:*", count=1000)}


def _vectors_of(texts: list[str], snapshots: Path) -> set[bytes]:
    """The keys of the vectors of these texts, under the model of the snapshots."""
    models: set[str] = set()
    for manifest in snapshots.glob("*/manifest.json"):
        with contextlib.suppress(FileNotFoundError):  # a newer snapshot was written, and this one is being removed
            models.add(json.loads(manifest.read_bytes())["model"])
    (model,) = models
    return {embedding(cache_key(model, text)).encode() for text in texts}
