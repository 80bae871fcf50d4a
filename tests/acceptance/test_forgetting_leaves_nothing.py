"""What was forgotten is nowhere: not in Valkey, in no file, in no answer, and a replay does not bring it back.

The server archives its log as it comes, so most of what is forgotten is in segments by then.

A marker is planted in every text of every noun of a user, a project, a session, and of one memory that was condensed
with others. Once the receipts say `done`, every byte that the server keeps is searched for it, packed files unpacked;
then all partitions are rebuilt from the log and everything is searched again. What belongs to others is as it was.

Names are not planted: of projects, sessions and agents, and event ids, for they stay in the log's stubs; a user's are.
"""

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
from ingest.platform.connections import Client, connect
from projections.search.terms import terms
from projections.vectors.embedder import cache_key
from tests.acceptance.running import Server, running, seed_cache
from tests.acceptance.test_visibility_matrix import READS
from tests.acceptance.visibility import Planted

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
    seed_cache(cache)
    changes: dict[str, Any] = {"condense_threshold": 3, "condense_batch": 3, "condense_every": 1, "purge_every": 1}
    changes |= {"archive": str(tmp_path_factory.mktemp("archive")), "archive_after": 0}
    with running(cache, partitions=PARTITIONS, **changes) as started:
        yield started


@pytest.fixture
async def redis(server: Server) -> AsyncIterator[Client]:
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
    await send(client, "POST", "/v1/consolidate", project=said.project, min_observations=1)
    await send(client, "POST", "/v1/reflect", project=said.project)
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


async def in_valkey(redis: Client, wanted: bytes) -> list[str]:
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

    What an index file says cannot be read off its bytes: tantivy packs its words. That it is a new one can.
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
        for part in ("", "/observations", "/summary", "/commits"):
            found[f"{session}{part}"] = (await client.get(f"/v1/sessions/{session}{part}")).content
    for path in ("/v1/diagnose", "/v1/forget", "/v1/admin/dead-letters", "/metrics"):
        found[path] = (await client.get(path)).content
    return found


async def projected(client: httpx.AsyncClient) -> bool:
    """Whether everything is folded, embedded and searchable."""
    rows = (await client.get("/v1/admin/projections")).json()["partitions"]
    return all(not row["lag"] and not row["to_embed"] and row["searchable"] == row["checkpoint"] for row in rows)


async def rewritten(redis: Client) -> bool:
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


async def test_nothing_is_left_of_what_was_forgotten(server: Server, client: httpx.AsyncClient, redis: Client):
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
    expected = cached | _vectors_of(EPISODES[1:], folders["data"] / "snapshots")
    assert await _vectors(redis) == expected, "of forgotten texts none, of the others all"
    for path in {**by_user, **by_project, **by_session, f"memories/{episodes[0]}": ""}:
        assert (await client.get(f"/v1/{path}")).status_code == 404, path
    assert await kept_as_it_was(client, kept) == before
    assert in_files(folders["archive"], b"zqxvkstays7"), "what belongs to others is still archived"
    for memory in episodes[1:]:
        assert (await send(client, "GET", f"/v1/memories/{memory}"))["superseded_by"] == "", "what stood for it is gone"

    await send(client, "POST", "/v1/admin/projections/rebuild")
    await wait_until(lambda: _rebuilt(client), 60)
    await wait_until(lambda: projected(client), 60)
    await assert_nothing_left(server, client, redis, gone)
    assert await kept_as_it_was(client, kept) == before


async def assert_nothing_left(server: Server, client: httpx.AsyncClient, redis: Client, gone: Planted) -> None:
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
    await send(client, "POST", "/v1/consolidate", project=STAYS, min_observations=1)
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


async def _purged(redis: Client) -> bool:
    return not [key async for key in redis.scan_iter(match="mnemolog:{p*}:purg*", count=1000)]


async def _vectors(redis: Client) -> set[bytes]:
    return {key async for key in redis.scan_iter(match="mnemolog:vec:*", count=1000)}


def _vectors_of(texts: list[str], snapshots: Path) -> set[bytes]:
    """The keys of the vectors of these texts, under the model of the snapshots."""
    (manifest,) = snapshots.glob("*/manifest.json")
    model: str = json.loads(manifest.read_bytes())["model"]
    return {embedding(cache_key(model, text)).encode() for text in texts}
