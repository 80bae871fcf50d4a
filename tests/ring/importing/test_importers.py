"""Importers as people meet them: real files and servers of other systems, interrupted, resumed, repeated."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from commands import ROOT, command_line, environment, run
from ports import free_port
from waiting import wait_until

from tests.acceptance.running import SECRET, Server
from tests.acceptance.test_mcp_profiles import called, client_of
from tests.acceptance.test_names import HEADER

LONG_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(days=90)
OBSERVATIONS = 9_700
"""With their sessions, prompts, summaries and ends they are a little over 10,000 rows."""
PATIENT_S = 60.0
NEVER_IDLE = 525_600
"""Minutes of silence: upkeep adds no events of its own to sessions that an import left open for a moment."""


class Importer(NamedTuple):
    """The command line against one server, with a folder of its own for what it remembers."""

    server: Server
    state: Path

    @property
    def variables(self) -> dict[str, str]:
        return {
            "MNEMOLOG_URL": self.server.url,
            "MNEMOLOG_SECRET": SECRET,
            "XDG_STATE_HOME": str(self.state),
            "HOME": str(self.state),
        }

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The report of an import, which ends with an exit code."""
        done = run(self.variables, "import", *arguments, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def export(self) -> list[str]:
        """The lines of everything the server has, in an order of their own."""
        done = run(self.variables, "export")
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())

    async def cut_short(self, signal_number: int, rows: int, *arguments: str) -> int:
        """Start an import and send it a signal once so many rows are done; returns the exit code."""
        process = await asyncio.create_subprocess_exec(
            *command_line("import", *arguments),
            env=environment(**self.variables),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background job begins deaf to it
        )
        await wait_until(lambda: self.done() >= rows or process.returncode is not None, PATIENT_S)
        process.send_signal(signal_number)
        return await asyncio.wait_for(process.wait(), PATIENT_S)

    def done(self) -> int:
        """How many rows the states of unfinished imports count."""
        found = 0
        for file in (self.state / "mnemolog" / "imports").glob("*.json"):
            state = json.loads(file.read_text())
            if not state["finished_at"]:
                found += sum(kind["taken"] + kind["skipped"] for kind in state["report"]["kinds"].values())
        return found


@pytest.fixture
def importer(two_servers: tuple[Server, Server], tmp_path: Path) -> Importer:
    """The command line against the first server."""
    return Importer(two_servers[0], tmp_path / "one")


@pytest.fixture
def other(two_servers: tuple[Server, Server], tmp_path: Path) -> Importer:
    """The command line against the second server."""
    return Importer(two_servers[1], tmp_path / "other")


def iso(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def claude_mem_file(path: Path) -> None:
    """A file as claude-mem has it, held open and in WAL mode by its owner."""
    database = sqlite3.connect(path)
    database.executescript(
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT UNIQUE, memory_session_id TEXT
            UNIQUE, project TEXT, user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER, completed_at TEXT,
            completed_at_epoch INTEGER, status TEXT);
        CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT, project TEXT,
            text TEXT, type TEXT, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT,
            files_read TEXT, files_modified TEXT, prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);
        CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT,
            investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT,
            notes TEXT, created_at TEXT, created_at_epoch INTEGER);
        CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER,
            prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
        """
    )
    for number in range(OBSERVATIONS):
        session, at = number // 100, LONG_AGO + timedelta(minutes=number)
        later = at + timedelta(hours=2)
        project = f"shop-{session % 5}"
        if number % 100 == 0:
            database.execute(
                "INSERT INTO sdk_sessions VALUES (?, ?, ?, ?, 'make it work', ?, ?, ?, ?, 'completed')",
                (session + 1, f"c{session}", f"m{session}", project, iso(at), ms(at), iso(later), ms(later)),
            )
            database.execute(
                "INSERT INTO user_prompts VALUES (?, ?, 1, ?, ?, ?)",
                (session + 1, f"c{session}", f"what about number {session}?", iso(at), ms(at)),
            )
            database.execute(
                "INSERT INTO session_summaries VALUES (?, ?, ?, 'make it work', 'the pool', 'it leaks', 'a fix',"
                " 'a test', '[]', '[\"pool.py\"]', NULL, ?, ?)",
                (session + 1, f"m{session}", project, iso(later), ms(later)),
            )
        database.execute(
            "INSERT INTO observations (memory_session_id, project, type, title, narrative, facts, concepts, files_read,"
            " files_modified, created_at, created_at_epoch) VALUES (?, ?, ?, ?, ?, ?, '[\"pool\"]', '[]',"
            " '[\"pool.py\"]', ?, ?)",
            (
                f"m{session}", project, "bugfix" if number % 2 else "invented", f"Fix number {number}",
                f"The pool of worker {number} did not reconnect.", json.dumps([f"fact {number}"]), iso(at), ms(at),
            ),
        )  # fmt: skip
    database.commit()
    database.close()


@pytest.mark.nightly
async def test_a_killed_import_of_ten_thousand_rows_ends_as_an_uninterrupted_one(
    importer: Importer, other: Importer, tmp_path: Path
):
    file = tmp_path / "claude-mem.db"
    claude_mem_file(file)
    owner = sqlite3.connect(file)
    owner.execute("BEGIN IMMEDIATE")
    for rows in (1_500, 6_000):
        assert await importer.cut_short(signal.SIGKILL, rows, "claude-mem", str(file), "--batch-size", "100") == -9
        assert rows <= importer.done() < OBSERVATIONS
    resumed = importer("claude-mem", str(file))
    whole = other("claude-mem", str(file), "--batch-size", "2000")
    assert resumed["rows"] == whole["rows"] == OBSERVATIONS + 4 * 97
    assert counts(resumed, "taken") == counts(whole, "taken")
    assert whole["kinds"]["observation"]["new"] == 2 * OBSERVATIONS, "each with how it was compressed"
    again = importer("claude-mem", str(file))
    owner.close()
    assert (counts(again, "taken"), sum(counts(again, "new").values())) == (counts(whole, "taken"), 0)
    assert importer.export() == other.export()


def counts(report: dict[str, Any], field: str) -> dict[str, int]:
    return {name: kind[field] for name, kind in report["kinds"].items()}


SESSIONS, PER_SESSION, MEMORIES = 40, 50, 150


def agentmemory_export() -> dict[str, Any]:
    """An export of agentmemory with some of everything, and a broken row of each kind."""
    sessions, observations, summaries, memories = list[Any](), dict[str, Any](), list[Any](), list[Any]()
    for number in range(SESSIONS):
        name, at = f"ses_{number:02}", LONG_AGO + timedelta(hours=number)
        project = f"cart-{number % 3}"
        sessions.append(
            {
                "id": name, "project": project, "cwd": f"/home/ada/{project}", "startedAt": iso(at),
                "endedAt": iso(at + timedelta(minutes=59)), "status": "completed", "observationCount": PER_SESSION,
                "firstPrompt": f"look at cart {number}", "agentId": "ada", "commitShas": [f"{number:040x}"],
            }
        )  # fmt: skip
        observations[name] = [
            {
                "id": f"obs_{number}_{place}", "sessionId": name, "timestamp": iso(at + timedelta(minutes=place)),
                "hookType": "post_tool_use", "type": "command_run", "title": "Bash",
                "narrative": f"make test {place}", "facts": [], "concepts": [], "files": [], "importance": 5,
                "confidence": 0.3, "raw": {"tool_name": "Bash", "tool_input": {"command": f"make test {place}"}},
            }
            for place in range(PER_SESSION)
        ]  # fmt: skip
        summaries.append(
            {
                "sessionId": name, "project": project, "createdAt": iso(at + timedelta(minutes=58)),
                "title": f"Cart {number} adds up", "narrative": "Lines were rounded too early.",
                "keyDecisions": ["round the sum"], "filesModified": ["cart.py"], "concepts": ["rounding"],
                "observationCount": PER_SESSION,
            }
        )  # fmt: skip
    observations["ses_00"][7] |= {
        "type": "decision", "title": "Round late", "narrative": "The sum is rounded once.", "confidence": 0.9,
        "facts": ["Money is in cents"], "concepts": ["rounding"], "importance": 8,
    }  # fmt: skip
    for number in range(MEMORIES):
        memories.append(
            {
                "id": f"mem_{number}", "createdAt": iso(LONG_AGO + timedelta(hours=number)), "type": "architecture",
                "updatedAt": iso(LONG_AGO + timedelta(hours=number)), "title": f"Service {number}",
                "content": f"service{number} listens on port{number} behind gateway{number}", "concepts": ["ports"],
                "files": [f"deploy/{number}.yaml"], "sessionIds": ["ses_00"], "strength": 8, "version": 1,
                "supersedes": [], "sourceObservationIds": ["obs_0_7"], "isLatest": True, "agentId": "ada",
                "project": "cart-0",
            }
        )  # fmt: skip
    changed = {**memories[3], "id": "mem_new", "content": "service3 is gone", "version": 2, "parentId": "mem_3"}
    memories[3]["isLatest"] = False
    memories = [{**changed, "supersedes": ["mem_3"], "createdAt": iso(LONG_AGO + timedelta(days=20))}, *memories]
    lesson = {
        "id": "lsn_1", "content": "Round the sum, never the lines", "context": "carts", "confidence": 0.75,
        "reinforcements": 2, "source": "manual", "sourceIds": [], "project": "cart-0", "tags": ["money"],
        "createdAt": iso(LONG_AGO), "updatedAt": iso(LONG_AGO + timedelta(days=9)),
        "lastReinforcedAt": iso(LONG_AGO + timedelta(days=9)), "decayRate": 0.05,
    }  # fmt: skip
    slot = {
        "label": "guidance", "content": "Money is in cents", "sizeLimit": 1500, "description": "", "pinned": True,
        "readOnly": False, "scope": "project", "createdAt": iso(LONG_AGO), "updatedAt": iso(LONG_AGO),
    }  # fmt: skip
    actions: list[dict[str, Any]] = [
        {"id": "act_1", "title": "Fix rounding", "description": "", "status": "done", "priority": 3, "tags": [],
         "createdAt": iso(LONG_AGO), "updatedAt": iso(LONG_AGO + timedelta(hours=3)), "createdBy": "ada",
         "project": "cart-0", "result": "fixed"},
        {"id": "act_2", "title": "Release it", "description": "", "status": "blocked", "priority": 2, "tags": [],
         "createdAt": iso(LONG_AGO), "updatedAt": iso(LONG_AGO), "createdBy": "ada", "project": "cart-0"},
    ]  # fmt: skip
    return {
        "version": "0.9.29",
        "exportedAt": iso(LONG_AGO),
        "sessions": [*sessions, {"id": "ses_broken", "project": "cart-0", "startedAt": "last week"}],
        "observations": observations,
        "memories": [*memories, "a text", {**memories[-1], "id": "mem_empty", "content": "  "}],
        "summaries": summaries,
        "lessons": [lesson, {**lesson, "id": "lsn_2", "content": "An old one", "deleted": True}],
        "slots": [slot, {**slot, "label": "Not A Label"}],
        "actions": actions,
        "actionEdges": [{"type": "requires", "sourceActionId": "act_2", "targetActionId": "act_1"}],
        "relations": [
            {"id": "rel_1", "sourceId": "mem_1", "targetId": "mem_2", "type": "extends", "confidence": 0.6,
             "createdAt": iso(LONG_AGO)},
        ],
        "profiles": [{"project": "cart-0"}],
    }  # fmt: skip


@pytest.mark.nightly
async def test_an_agentmemory_export_ends_the_same_interrupted_or_not_and_its_tools_show_it(
    private_server: Callable[..., Server], tmp_path: Path
):
    one = Importer(private_server(session_idle_minutes=NEVER_IDLE), tmp_path / "one")
    other = Importer(private_server(session_idle_minutes=NEVER_IDLE), tmp_path / "other")
    file, known = tmp_path / "export.json", agentmemory_export()
    file.write_text(json.dumps(known))
    assert await one.cut_short(signal.SIGINT, 200, "agentmemory", str(file), "--batch-size", "10") == 130
    assert 200 <= one.done() < SESSIONS * PER_SESSION
    resumed, whole = one("agentmemory", str(file)), other("agentmemory", str(file))
    again = other("agentmemory", str(file))
    for report in (resumed, whole, again):
        assert counts(report, "taken") == {
            "session": SESSIONS, "observation": SESSIONS * PER_SESSION, "summary": SESSIONS,
            "session end": SESSIONS, "memory": MEMORIES + 1, "lesson": 1, "slot": 1, "action": 2, "relation": 1,
            "profiles": 0,
        }  # fmt: skip
        assert counts(report, "skipped") == {
            "session": 1, "observation": 0, "summary": 0, "session end": 1, "memory": 2, "lesson": 1, "slot": 1,
            "action": 0, "relation": 0, "profiles": 1,
        }  # fmt: skip
    assert whole["kinds"]["session"]["why"] == {"startedAt: is not a time": {"rows": 1, "examples": ["ses_broken"]}}
    assert sum(counts(again, "new").values()) == 0
    assert one.export() == other.export()
    await wait_until(partial(all_searchable, one), PATIENT_S)
    async with client_of(one.server, "agentmemory") as client:
        await shows(partial(called, client), known)


async def shows(call: Callable[..., Awaitable[dict[str, Any]]], known: dict[str, Any]) -> None:
    """The tools of agentmemory show what was imported."""
    listed = (await call("memory_sessions", limit=100))["sessions"]
    assert len(listed) == SESSIONS
    newest, expected = listed[0], known["sessions"][SESSIONS - 1]
    same = ("id", "project", "cwd", "startedAt", "endedAt", "status", "observationCount", "agentId", "commitShas")
    assert {name: newest[name] for name in same} == {name: expected[name] for name in same}
    assert newest["summary"] == known["summaries"][SESSIONS - 1]
    found = (await call("memory_recall", query="gateway42", limit=3))["results"]
    assert found[0]["narrative"] == known["memories"][43]["content"]
    export = await call("memory_export")
    assert {name: len(rows) for name, rows in export["observations"].items()} == dict.fromkeys(
        (one["id"] for one in known["sessions"][:SESSIONS]), PER_SESSION
    )
    seen = {one["raw"]["tool_input"]["command"]: one for one in export["observations"]["ses_00"]}["make test 7"]
    told = known["observations"]["ses_00"][7]
    same = ("sessionId", "timestamp", "hookType", "raw", "title", "narrative", "facts", "concepts", "importance")
    assert {name: seen[name] for name in same} == {name: told[name] for name in same}
    memories = {one["content"]: one for one in export["memories"]}
    assert len(memories) == MEMORIES + 1
    latest, before = memories["service3 is gone"], memories[known["memories"][4]["content"]]
    assert (latest["version"], latest["parentId"], latest["isLatest"]) == (2, before["id"], True)
    assert (before["version"], before["isLatest"]) == (1, False)
    same = ("createdAt", "type", "title", "content", "concepts", "files", "sessionIds", "strength", "agentId")
    assert {name: before[name] for name in same} == {name: known["memories"][4][name] for name in same}
    assert before["sourceObservationIds"] == [seen["id"]]
    (lesson,) = export["lessons"]
    same = ("content", "context", "confidence", "reinforcements", "tags", "createdAt", "lastReinforcedAt", "project")
    assert {name: lesson[name] for name in same} == {name: known["lessons"][0][name] for name in same}
    assert next(one for one in export["slots"] if one["label"] == "guidance")["content"] == "Money is in cents"
    actions = {one["title"]: one for one in export["actions"]}
    assert (actions["Fix rounding"]["result"], actions["Fix rounding"]["status"]) == ("fixed", "done")
    assert [one["targetActionId"] for one in export["actionEdges"]] == [actions["Fix rounding"]["id"]]
    assert [one["type"] for one in export["relations"]] == ["extends"]


Answer = Callable[[dict[str, str]], Any]


@contextmanager
def serving(routes: dict[str, Answer], secret: str = "") -> Generator[str]:
    """The URL of a server that answers these routes as another system's does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            answer = routes.get(parts.path)
            if secret and self.headers["Authorization"] != f"Bearer {secret}":
                status, said = 401, {"error": "unauthorized"}
            elif answer is None:
                status, said = 404, {"error": "not found"}
            else:
                status, said = 200, answer({name: values[0] for name, values in parse_qs(parts.query).items()})
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()


def page(items: list[Any], query: dict[str, str]) -> list[Any]:
    offset, limit = int(query.get("offset", 0)), int(query["limit"])
    return items[offset : offset + limit]


async def get(importer: Importer, path: str, **query: str) -> Any:
    async with importer.server.client() as client:
        answer = await client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def all_searchable(importer: Importer) -> bool:
    """Whether everything in the log is projected and can be found."""
    partitions = (await get(importer, "/v1/admin/projections"))["partitions"]
    return all(partition["searchable"] == partition["head"] for partition in partitions)


async def settled(importer: Importer, path: str, count: int, **query: str) -> list[dict[str, Any]]:
    """The items of a listing, once there are so many."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = (await get(importer, path, **query))["items"]
        return len(found) >= count

    await wait_until(there, PATIENT_S)
    return found


async def test_memories_are_taken_from_a_running_agentd(importer: Importer):
    known = [
        {
            "id": f"mem_{number}", "content": f"fact {number}", "type": "question", "tags": ["a,b"],
            "created_by": "ada", "visibility": "private", "shared_with": ["bob"], "references": ["mem_0"],
            "created_at": iso(LONG_AGO + timedelta(minutes=number)),
            "updated_at": iso(LONG_AGO + timedelta(minutes=number)),
        }
        for number in range(250)
    ]  # fmt: skip
    newest_first = [*reversed(known), {"id": "mem_x", "content": "whose?", "created_at": iso(LONG_AGO)}]

    def memories(query: dict[str, str]) -> Any:
        return {"items": page(newest_first, query), "total": len(newest_first)}

    with serving({"/memories": memories}) as url:
        dry = importer("agentd", url, "--project", "town", "--dry-run")
        report = importer("agentd", url, "--project", "town")
        again = importer("agentd", url, "--project", "town")
    assert (dry["kinds"]["memory"]["taken"], dry["kinds"]["memory"]["new"]) == (250, 250)
    assert (report["kinds"]["memory"]["new"], report["kinds"]["memory"]["skipped"]) == (250, 1)
    assert list(report["kinds"]["memory"]["why"]) == ["created_by: is missing or empty"]
    assert (again["kinds"]["memory"]["new"], again["kinds"]["memory"]["known"]) == (0, 250)
    async with importer.server.client("ada") as ada:

        async def there() -> bool:
            answer = await ada.get("/v1/memories", params={"project": "town", "limit": "200"})
            return len(answer.json()["items"]) == 200

        await wait_until(there, PATIENT_S)
        oldest = (await ada.get("/v1/memories", params={"project": "town", "limit": "200"})).json()
    assert oldest["items"][0]["tags"] == ["a,b"]


async def test_a_running_agentmemory_is_read_page_by_page_with_its_secret(importer: Importer):
    known = agentmemory_export()
    listed = known["sessions"][:-1] * 3

    def export(query: dict[str, str]) -> Any:
        offset, limit = int(query["offset"]), int(query["maxSessions"])
        sessions = [{**one, "id": f"{one['id']}_{place}"} for place, one in enumerate(listed)][offset : offset + limit]
        more = {"offset": offset, "limit": limit, "total": len(listed), "hasMore": offset + limit < len(listed)}
        return {"sessions": sessions, "observations": {}, "memories": [], "summaries": [], "pagination": more}

    with serving({"/agentmemory/export": export}, secret="theirs") as url:
        refused = importer("agentmemory", url, code=2)
        report = importer("agentmemory", url, "--source-secret", "theirs")
    assert "401" in refused["error"]["message"]
    assert counts(report, "taken") == {"session": len(listed), "session end": len(listed)}


async def test_agent_memory_is_read_from_its_server(importer: Importer):
    sessions = [
        {"id": 1, "session_id": "s-one", "project_name": "harbour", "agent_type": "claude-code", "status": "completed",
         "started_at": iso(LONG_AGO), "completed_at": iso(LONG_AGO + timedelta(hours=1)), "summary": "Cranes work."},
    ]  # fmt: skip
    observations = [
        {"id": number, "session_id": 1 + number % 2, "project_name": "harbour", "title": f"crane {number}",
         "type": "decision", "narrative": "It lifts.", "facts": ["steel"], "concepts": [], "files_read": [],
         "files_modified": [], "created_at": iso(LONG_AGO + timedelta(minutes=number))}
        for number in range(130, 0, -1)
    ]  # fmt: skip
    rules = [
        {"id": 1, "project_name": None, "title": "Look up", "rule": "Look up before you lift", "severity": "critical",
         "trigger_tool": "Bash", "trigger_pattern": "lift", "trigger_count": 3, "active": True,
         "created_at": iso(LONG_AGO)},
    ]  # fmt: skip

    def lessons(query: dict[str, str]) -> Any:
        asked = query["severity"] == "critical" and query["active"] == "true" and "project" not in query
        return rules if asked else []

    routes: dict[str, Answer] = {
        "/api/observations": lambda query: page(observations, query),
        "/api/admin/stats": lambda query: {"by_project": {"harbour": 130}},
        "/api/sessions": lambda query: [session for session in sessions if session["status"] == query["status"]],
        "/api/lessons": lessons,
    }
    with serving(routes) as url:
        report = importer("agent-memory", url)
    assert counts(report, "taken") == {"session": 2, "observation": 130, "lesson": 1, "session end": 1}
    (lesson,) = await settled(importer, "/v1/lessons", 1, project="*")
    assert (lesson["severity"], lesson["trigger_count"], lesson["reinforcements"]) == ("critical", 3, 1)
    seen = await settled(importer, "/v1/sessions/s-one/observations", 50, project="harbour")
    assert seen[0]["data"]["agent_memory"]["facts"] == ["steel"]


def postgres_bin() -> Path | None:
    """Where initdb and postgres are; None when they are not."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    places = [*found, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL of the test's own, on loopback."""
    programs = postgres_bin()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: neither initdb nor postgres was found")
    as_root = os.geteuid() == 0
    if as_root and not shutil.which("runuser"):
        pytest.skip("PostgreSQL does not run as root, and there is no runuser to start it as another user")
    other_user = ["runuser", "-u", "postgres", "--"] if as_root else []
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="mnemo-pg-") as folder:
        if as_root:
            shutil.chown(folder, "postgres")
        data = f"{folder}/data"
        init = [str(programs / "initdb"), "-D", data, "-U", "test", "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*other_user, *init], check=True, capture_output=True, timeout=PATIENT_S, cwd=folder)
        control = [*other_user, str(programs / "pg_ctl"), "-D", data, "-w"]
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
        start = [*control, "-l", f"{folder}/log", "-o", options, "start"]
        subprocess.run(start, check=True, capture_output=True, timeout=PATIENT_S, cwd=folder)
        try:
            yield f"postgresql://test@127.0.0.1:{port}/postgres"
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, check=True, capture_output=True, timeout=PATIENT_S, cwd=folder)


async def test_memex_and_agent_memory_are_read_from_postgresql(importer: Importer, postgres: str):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(
            """
            CREATE TABLE memories (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), agent_id TEXT NOT NULL, user_id TEXT
                NOT NULL, content TEXT NOT NULL, importance FLOAT NOT NULL DEFAULT 1.0, memory_type TEXT NOT NULL
                DEFAULT 'episodic', created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL DEFAULT now());
            CREATE TABLE mem_projects (id SERIAL PRIMARY KEY, name TEXT, full_path TEXT);
            CREATE TABLE mem_sessions (id SERIAL PRIMARY KEY, session_id TEXT, project_id INTEGER, agent_type TEXT,
                status TEXT, started_at TIMESTAMPTZ, completed_at TIMESTAMPTZ, summary TEXT);
            CREATE TABLE mem_observations (id SERIAL PRIMARY KEY, session_id INTEGER, project_id INTEGER, title TEXT,
                subtitle TEXT, type TEXT, narrative TEXT, facts JSONB, concepts JSONB, files_read JSONB, files_modified
                JSONB, raw_text TEXT, prompt_number INTEGER, tool_name TEXT, created_at TIMESTAMPTZ);
            CREATE TABLE mem_user_prompts (id SERIAL PRIMARY KEY, session_id INTEGER, prompt_number INTEGER,
                prompt_text TEXT, created_at TIMESTAMPTZ);
            CREATE TABLE mem_lessons (id SERIAL PRIMARY KEY, project_id INTEGER, title TEXT, rule TEXT, severity TEXT,
                trigger_tool TEXT, trigger_pattern TEXT, source_observation_id INTEGER, trigger_count INTEGER,
                last_triggered_at TIMESTAMPTZ, active BOOLEAN, created_at TIMESTAMPTZ);
            """
        )
        database.execute(
            "INSERT INTO memories (agent_id, user_id, content, importance, memory_type, created_at)"
            " SELECT 'bot', 'ada', 'fact ' || n, 1.5, 'semantic', %s + n / 3 * interval '1 minute'"
            " FROM generate_series(1, 2500) n",
            [LONG_AGO],
        )
        database.execute("INSERT INTO mem_projects VALUES (1, 'mill', '/home/ada/mill')")
        database.execute(
            "INSERT INTO mem_sessions VALUES (1, 's-mill', 1, 'claude-code', 'completed', %s, %s, 'The mill turns.')",
            [LONG_AGO, LONG_AGO + timedelta(hours=1)],
        )
        database.execute(
            "INSERT INTO mem_observations (session_id, project_id, title, type, narrative, facts, raw_text, created_at)"
            " SELECT 1, 1, 'wheel ' || n, 'gotcha', 'It squeaks.', '[\"oak\"]', 'raw', %s"
            " FROM generate_series(1, 20) n",
            [LONG_AGO],
        )
        database.execute(
            "INSERT INTO mem_lessons VALUES"
            " (1, 1, 'Oil', 'Oil the wheel', 'warning', NULL, NULL, 1, 0, NULL, false, %s)",
            [LONG_AGO],
        )
    memex = importer("memex", postgres)
    assert counts(memex, "new") == {"memory": 2500}
    assert counts(importer("memex", postgres), "new") == {"memory": 0}
    report = importer("agent-memory", postgres)
    assert counts(report, "taken") == {"session": 1, "observation": 20, "lesson": 1, "session end": 1}
    assert [*report["kinds"]["lesson"]["lost"]] == ["source_observation_id: which observation a rule was learned from"]
    told = await settled(importer, "/v1/summaries", 1, project="mill")
    assert (told[0]["narrative"], told[0]["observation_count"]) == ("The mill turns.", 20)
    async with client_of(importer.server, "memex") as client:

        async def all_there() -> bool:
            result = await client.call_tool("count_memories", {"agent_id": "bot", "user_id": "ada"})
            return "2500" in str(result.structured_content)

        await wait_until(all_there, PATIENT_S)


def test_memories_of_mem0_are_read_from_pgvector(importer: Importer, postgres: str):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(
            """
            CREATE DOMAIN vector AS real[];
            CREATE TABLE "mem0 of ada" (id UUID PRIMARY KEY, vector vector, payload JSONB);
            CREATE TABLE mem0_entities (id UUID PRIMARY KEY, vector vector, payload JSONB);
            """
        )
        payload = {"data": "likes tea", "user_id": "ada", "created_at": iso(LONG_AGO), "hash": "x", "role": "user"}
        row = "VALUES (gen_random_uuid(), '{0.1}', %s)"
        database.execute(f'INSERT INTO "mem0 of ada" {row}', [json.dumps(payload)])
        database.execute(f"INSERT INTO mem0_entities {row}", [json.dumps({"data": "tea", "linked_memory_ids": []})])
    first = importer("mem0", postgres)
    assert (counts(first, "taken"), counts(first, "skipped")["entity"]) == ({"memory": 1, "entity": 0}, 1)
    assert counts(importer("mem0", postgres), "new") == {"memory": 0, "entity": 0}


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("agentmemory", "agentmemory-standalone.json"), ("mem0", "mem0-get-all.json"), ("chatgpt", "chatgpt"),
        ("claude", "claude"), ("markdown", "notes"), ("server-memory", "server-memory.jsonl"),
    ],
)  # fmt: skip
def test_a_second_import_of_a_file_changes_nothing(importer: Importer, system: str, name: str):
    location = str(Path(__file__).with_name("files") / name)
    assert sum(counts(importer(system, location), "new").values()) > 0
    before = [line for line in importer.export() if '"source":"import"' in line]  # upkeep summarizes meanwhile
    assert sum(counts(importer(system, location), "new").values()) == 0
    assert before == [line for line in importer.export() if '"source":"import"' in line] != []


async def test_commands_and_transcripts_are_told_apart_and_a_broken_line_is_reported(
    importer: Importer, tmp_path: Path
):
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "commands.jsonl").write_text(
        '{"type":"remember","content":"The lock opens at noon","project":"canal"}\n'
        "{not json\n"
        '{"type":"remember","content":"x","colour":"red"}\n'
        '{"type":"observe","session_id":"s","content":"a boat","occurred_at":"2026-01-31T12:00:00Z"}\n'
    )
    base = {"sessionId": "cc-1", "cwd": "/home/ada/canal", "version": "2.0"}
    turns = [
        {"type": "summary", "summary": "Locks", "leafUuid": "x"},
        {**base, "type": "user", "uuid": "u1", "timestamp": iso(LONG_AGO),
         "message": {"role": "user", "content": "is the lock open?"}},
        {**base, "type": "assistant", "uuid": "u2", "timestamp": iso(LONG_AGO + timedelta(seconds=1)),
         "message": {"role": "assistant", "content": [
             {"type": "text", "text": "I will look."},
             {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "lock --state"}}]}},
        {**base, "type": "user", "uuid": "u3", "timestamp": iso(LONG_AGO + timedelta(seconds=2)),
         "message": {"role": "user", "content": [
             {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "open"}]}]}},
    ]  # fmt: skip
    (folder / "cc-1.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    report = importer("jsonl", str(folder))
    assert counts(report, "taken") == {"line": 0, "observation": 3, "command": 2}
    assert counts(report, "skipped") == {"line": 1, "observation": 0, "command": 2}
    assert report["kinds"]["line"]["why"] == {"no message: summary": {"rows": 1, "examples": ["line 1"]}}
    assert counts(importer("jsonl", str(folder)), "new") == {"line": 0, "observation": 0, "command": 0}
    seen = await settled(importer, "/v1/sessions/cc-1/observations", 3, project="canal")
    tools = [one["data"] for one in seen if "tool_name" in one["data"]]
    assert tools == [{"tool_name": "Bash", "tool_input": {"command": "lock --state"}, "tool_output": "open"}]


def test_what_cannot_be_read_or_reached_is_said(importer: Importer, tmp_path: Path):
    nothing = str(tmp_path / "nothing.db")
    for arguments, said in (
        (("claude-mem", nothing), "cannot be read: No such file"),
        (("agentmemory",), "a location is needed"),
        (("memex", "http://127.0.0.1:1"), "lists no memories"),
        (("shop.ndjson", "there"), "is not a known system"),
        (("shop.ndjson", "--dry-run"), "only for other systems"),
    ):
        assert said in str(importer(*arguments, code=2)["error"])
    export = tmp_path / "ours.ndjson"
    export.write_bytes(HEADER)
    assert "no export of agentmemory" in str(importer("agentmemory", str(export), code=2)["error"])
    gone = importer._replace(server=importer.server._replace(url=f"http://127.0.0.1:{free_port()}"))
    assert gone("agentd", "http://127.0.0.1:1", code=3)["error"]["code"] == "unreachable"
    assert not (importer.state / "mnemolog").exists()
