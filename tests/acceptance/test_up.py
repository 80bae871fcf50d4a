"""`mnemolog up` and the other commands as a person starts them: processes, signals, exit codes, output, no DNS."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import ROOT, command_line, environment, run
from isolated import looked_up
from ports import free_port
from waiting import wait_until

from api.cli.server import PAGE
from tests.acceptance.running import PATIENT_READ_S, SECRET, Server, Tenant
from tests.chaos.starting_together import start_together

UP_S = 60.0


class Up:
    """One `mnemolog up` and its children."""

    def __init__(
        self, data_dir: Path, cache_dir: Path, port: int, errors: Path, workers: int = 1, embedder: str = "none"
    ) -> None:
        self.variables = {
            "MNEMOLOG_DATA_DIR": str(data_dir),
            "MNEMOLOG_CACHE_DIR": str(cache_dir),
            "MNEMOLOG_PORT": str(port),
            "MNEMOLOG_PARTITIONS": "2",
            "MNEMOLOG_WORKERS": str(workers),
            "MNEMOLOG_EMBEDDER": embedder,
            "MNEMOLOG_READ_WAIT": str(PATIENT_READ_S),
        }
        self.url = f"http://127.0.0.1:{port}"
        self.errors = errors
        with errors.open("wb") as output:
            self.process = subprocess.Popen(
                command_line("up"), env=environment(**self.variables), cwd=ROOT, stdout=output, stderr=output
            )

    def children(self) -> dict[str, int]:
        """Process ids by name: api, worker, valkey; worker+ for a second one."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found: dict[str, int] = {}
        for pid in map(int, listed):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:  # it ended since it was listed
                continue
            if words != [b""]:  # of a child that has ended and was not waited for, nothing is told
                name = words[-2].decode() if b"api.cli.main" in words else "valkey"
                found[f"{name}+" if name in found else name] = pid
        return found

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient]:
        """A client of it."""
        async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as http:
            yield http

    async def wait_ready(self) -> None:
        """Return when it says that it is up and is ready; fails when it ended instead."""
        async with self.client() as http:

            async def ready() -> bool:
                assert self.process.poll() is None, self.errors.read_text()
                if "mnemolog is up" not in self.errors.read_text():
                    return False
                try:
                    return (await http.get("/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await wait_until(ready, timeout_s=UP_S)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Its exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(UP_S)


@contextmanager
def up(data_dir: Path, cache_dir: Path, port: int, workers: int = 1, embedder: str = "none") -> Generator[Up]:
    """`mnemolog up` in a process of its own; nothing of it is left afterwards."""
    data_dir.parent.mkdir(exist_ok=True)
    started = Up(data_dir, cache_dir, port, data_dir.parent / "up.log", workers, embedder)
    try:
        yield started
    finally:
        try:
            started.stop()
        except subprocess.TimeoutExpired:
            for pid in started.children().values():
                os.kill(pid, signal.SIGKILL)
            started.process.kill()
            started.process.wait()


def is_running(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def remember(client: httpx.AsyncClient, content: str) -> dict[str, Any]:
    """The acknowledgement of a memory."""
    answer = await client.post("/v1/memories", json={"project": "atlas", "content": content})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def contents(client: httpx.AsyncClient, after: str = "") -> list[str]:
    """What is remembered, the newest first."""
    answer = await client.get("/v1/memories", params={"project": "atlas", "after": after})
    assert answer.status_code == 200, answer.text
    return [one["content"] for one in answer.json()["items"]]


def _requests_come_before_projecting(one: Up) -> None:
    """Linux shares the processor between sessions first; niceness counts among the processes of one session only."""
    children = one.children()
    niceness = {name: os.getpriority(os.PRIO_PROCESS, pid) for name, pid in children.items()}
    assert niceness == {"valkey": 0, "api": 0, "worker": 10}
    assert {os.getsid(pid) for pid in children.values()} == {os.getsid(one.process.pid)}
    assert all(os.getpgid(pid) == pid for pid in children.values()), "Ctrl-C is for the supervisor alone"


def _ends_with_all_it_started(one: Up, number: signal.Signals) -> None:
    """Ctrl-C, and the signal of a service manager."""
    children = one.children()
    assert sorted(children) == ["api", "valkey", "worker"]
    assert one.stop(number) == 0
    assert not any(map(is_running, children.values()))


async def test_a_second_up_ends_and_killed_children_are_started_again(short_path: Path, cache_dir: Path):
    port = free_port()
    with up(short_path / "data", cache_dir, port) as running:
        await running.wait_ready()
        await _a_second_up_ends_with_one_line(running, short_path, port)
        await _killed_children_are_started_again(running)


async def _a_second_up_ends_with_one_line(running: Up, short_path: Path, port: int) -> None:
    """The same port, or another port on the same data: one clear line, exit code 1, and the first goes on."""
    other = str(short_path / "other")
    same_port = run({**running.variables, "MNEMOLOG_DATA_DIR": other}, "up")
    assert same_port.returncode == 1
    assert f"port {port} is in use by `mnemolog up with {short_path / 'data'}`" in same_port.stderr
    assert f"(process {running.process.pid})" in same_port.stderr
    assert "MNEMOLOG_PORT" in " ".join(same_port.stderr.split())
    same_data = run({**running.variables, "MNEMOLOG_PORT": str(free_port())}, "up")
    assert same_data.returncode == 1
    assert f"is in use by `mnemolog up` (process {running.process.pid})" in same_data.stderr
    assert "MNEMOLOG_DATA_DIR" in same_data.stderr
    for refused in (same_port, same_data):
        assert "error:" in refused.stderr
        assert "Traceback" not in refused.stderr
    async with running.client() as client:
        kept = await remember(client, "still serving")
        assert await contents(client, kept["position"]) == ["still serving"]


async def _killed_children_are_started_again(running: Up) -> None:
    """The API, the worker, then Valkey, each killed outright: service resumes and what was acknowledged is there."""
    expected: list[str] = ["still serving"]
    for victim in ("api", "worker", "valkey"):
        async with running.client() as client:
            expected.insert(0, f"before {victim} died")
            await remember(client, expected[0])
        before = running.children()
        os.kill(before[victim], signal.SIGKILL)

        def replaced(old: int = before[victim], name: str = victim) -> bool:
            return running.children().get(name, old) != old

        await wait_until(replaced)
        await running.wait_ready()
        after = running.children()
        assert {name: after[name] for name in before if name != victim} == {
            name: pid for name, pid in before.items() if name != victim
        }
        async with running.client() as client:
            expected.insert(0, f"after {victim} died")
            kept = await remember(client, expected[0])

            async def all_there(client: httpx.AsyncClient = client, after: str = kept["position"]) -> bool:
                answer = await client.get("/v1/memories", params={"project": "atlas", "after": after})
                return answer.status_code == 200 and [one["content"] for one in answer.json()["items"]] == expected

            await wait_until(all_there)


@pytest.mark.nightly
async def test_a_first_start_says_that_it_exports_the_model(short_path: Path):
    with up(short_path / "data", short_path / "no-cache", free_port(), embedder="default") as first:
        await first.wait_ready()
    assert "exporting the embedding model, once: " in first.errors.read_text()


async def test_workers_of_one_up_share_the_partitions_and_end_with_it(short_path: Path, cache_dir: Path):
    with up(short_path / "data", cache_dir, free_port(), workers=2) as running:
        await running.wait_ready()
        async with running.client() as client:

            async def shared() -> bool:
                rows = (await client.get("/v1/admin/projections")).json()["partitions"]
                return len({row["worker"] for row in rows} - {None, ""}) == 2

            await wait_until(shared, timeout_s=UP_S)
            kept = await remember(client, "projected by one of two")
            assert await contents(client, kept["position"]) == ["projected by one of two"]
        children = running.children()
        assert sorted(children) == ["api", "valkey", "worker", "worker+"]
        assert running.stop() == 0
        assert not any(map(is_running, children.values()))


@pytest.mark.nightly
async def test_an_up_that_was_killed_does_not_stop_the_next_one(short_path: Path, cache_dir: Path):
    """kill -9 of the supervisor: its children end or are taken over; the next start serves what was acknowledged."""
    with up(short_path / "data", cache_dir, free_port()) as running:
        await running.wait_ready()
        async with running.client() as client:
            kept = await remember(client, "kept over a crash")
            assert await contents(client, kept["position"]) == ["kept over a crash"]
        children = running.children()
        assert running.stop(signal.SIGKILL) == -signal.SIGKILL
        try:
            await wait_until(lambda: not is_running(children["api"]))
            await wait_until(lambda: not is_running(children["worker"]))
            await wait_until(lambda: not is_running(children["valkey"]))
            with up(short_path / "data", cache_dir, free_port()) as again:
                await again.wait_ready()
                async with again.client() as client:
                    assert await contents(client) == ["kept over a crash"]
        finally:
            for pid in filter(is_running, children.values()):
                os.kill(pid, signal.SIGKILL)


async def test_started_together_one_serves_and_the_others_say_who():
    """Three on one data folder; `tests.chaos.starting_together` does it often."""
    assert await start_together(3) == []


@pytest.mark.nightly
async def test_started_together_on_one_port_one_serves_and_the_other_says_who():
    assert await start_together(2, one_port=True) == []


async def test_an_up_takes_over_at_once_from_one_that_was_killed(short_path: Path, cache_dir: Path):
    """The next start waits for what the killed one left; at no time do two servers have the file.

    Without the snapshots that the feeds were trimmed behind it makes the index of the documents: nobody has to order
    that, and nothing is missing.
    """
    data, port = short_path / "data", free_port()
    with up(data, cache_dir, port) as running:
        await running.wait_ready()
        async with running.client() as client:
            for told in ("heron eats fish", "heron nests in tall trees by rivers", "every heron was grey in winter"):
                await remember(client, told)
            assert (await client.post("/v1/admin/snapshots")).status_code == 202
            await wait_until(lambda: bool(list((data / "snapshots").glob("[!.]*"))))
            kept = await remember(client, "no heron crosses the sea at night")
            assert len(await contents(client, kept["position"])) == 4
        _requests_come_before_projecting(running)
        left = list(running.children().values())
        assert running.stop(signal.SIGKILL) == -signal.SIGKILL
        shutil.move(data / "snapshots", short_path / "away")
        try:
            with up(data, cache_dir, port) as again:
                await again.wait_ready()
                assert not any(map(is_running, left))
                async with again.client() as client:
                    found = await contents(client, kept["position"])
                    assert (len(found), found[0]) == (4, "no heron crosses the sea at night")
                    answer = await client.post("/v1/recall", json={"query": "heron", "project": "atlas"})
                    assert len(answer.json()["results"]) == 4
                    assert (await client.get("/readyz")).json()["documents"] == 4
                _ends_with_all_it_started(again, signal.SIGTERM)
        finally:
            for pid in filter(is_running, left):
                os.kill(pid, signal.SIGKILL)


async def test_acknowledged_events_that_the_log_came_back_without_are_told_everywhere(
    short_path: Path, cache_dir: Path
):
    """A file that was cut while nothing ran: on the console, in readiness, health and diagnosis, until it is noted."""
    with up(short_path / "data", cache_dir, free_port()) as first:
        await first.wait_ready()
        async with first.client() as client:
            await remember(client, "before")
            lost = (await remember(client, "after"))["position"]
        _ends_with_all_it_started(first, signal.SIGINT)
        said = first.errors.read_text()
        assert f"mnemolog is up at {first.url}" in " ".join(said.split())
        assert "Traceback" not in said
    partition, _, position = lost.partition(":")
    assert cut_at_the_entry(short_path / "data" / "valkey", position)
    with up(short_path / "data", cache_dir, free_port()) as second:
        await second.wait_ready()
        told = f"partition {partition} "
        console = " ".join(second.errors.read_text().split())
        assert "acknowledged events are missing from the log" in console
        assert told in console
        assert position in console
        async with second.client() as client:
            ready = (await client.get("/readyz")).json()
            (condition,) = [one for one in ready["degraded"] if one["code"] == "lost_writes"]
            assert told in condition["message"]
            assert position in condition["message"]
            checks = (await client.get("/v1/diagnose")).json()["checks"]
            assert [check["status"] for check in checks if check["name"] == "lost-writes"] == ["fail"]
        variables = {**second.variables, "MNEMOLOG_URL": second.url}
        assert position in run(variables, "health").stdout
        shown = run(second.variables, "log-file")
        assert (shown.returncode, position in shown.stdout) == (1, True)
        in_use = run(second.variables, "log-file", "check")
        assert (in_use.returncode, "in use by `mnemolog up`" in in_use.stderr) == (1, True)
        assert run(second.variables, "log-file", "acknowledge").returncode == 0
        assert run(second.variables, "log-file").returncode == 0
        async with second.client() as client:
            assert "lost_writes" not in (await client.get("/readyz")).text.replace('"lost_writes":""', "")


def cut_at_the_entry(folder: Path, position: str) -> int:
    """How much was cut off the log's file: from the middle of the entry at a position on."""
    file = next((folder / "appendonlydir").glob("*.incr.aof"))
    data = file.read_bytes()
    at = data.index(f"\r\n{position}\r\n$1\r\ne\r\n".encode())
    os.truncate(file, at + 12)
    return len(data) - at


EVERY_COMMAND = ("redis://user:geheim@127.0.0.1:1/0", "localhost:7777")
UNREACHABLE = [
    pytest.param("redis://user:geheim@127.0.0.1:1/0", "127.0.0.1:1", id="with a password"),
    pytest.param("localhost:6379", "REDIS_URL", id="no scheme"),
    pytest.param("redis+cluster://127.0.0.1:1", "127.0.0.1:1", id="no such cluster"),
    *(
        pytest.param(url, named, id=name, marks=pytest.mark.nightly)
        for name, url, named in (
            ("nobody listens", "redis://127.0.0.1:1", "127.0.0.1:1"),
            ("no scheme, every command", "localhost:7777", "REDIS_URL"),
            ("no such host", "redis://nobody.invalid:6379", "nobody.invalid:6379"),
            ("no such socket", "unix:///nowhere/valkey.sock", "/nowhere/valkey.sock"),
            ("another scheme", "http://127.0.0.1:1", "REDIS_URL"),
            ("no port", "redis://127.0.0.1:port", "REDIS_URL"),
            ("half an address", "redis://[::1", "REDIS_URL"),
            ("half an address of a cluster", "redis+cluster://[::1", "REDIS_URL"),
            ("an option that there is not", "redis://127.0.0.1:1?nonsense=1", "REDIS_URL"),
        )
    ),
]


@pytest.mark.parametrize(("url", "named"), UNREACHABLE)
def test_a_server_that_cannot_be_reached_is_one_line(short_path: Path, url: str, named: str):
    """Every command that works on the log's server: what, where, and the exit code that docs/cli.md gives."""
    variables = {
        "REDIS_URL": url,
        "MNEMOLOG_JOBS_REDIS_URL": "redis://127.0.0.1:1",
        "MNEMOLOG_DATA_DIR": str(short_path),
        "MNEMOLOG_CACHE_DIR": str(short_path / "cache"),
        "MNEMOLOG_PORT": str(free_port()),
        "MNEMOLOG_BACKUP": str(short_path / "backups"),
        "MNEMOLOG_ARCHIVE": str(short_path / "archive"),
    }
    wrong = named == "REDIS_URL"
    every = ("up", "api", "worker", "worker --check", "keys list", "backup", "archive")
    for command in every if url in EVERY_COMMAND else ("up", "keys list"):
        done = run(variables, *command.split())
        is_process = command.split()[0] in ("up", "api", "worker")
        assert done.returncode == (1 if is_process else 2 if wrong else 3), (command, done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("error: "), (command, done.stderr)
        assert named in last or not is_process
        assert "Traceback" not in done.stderr
        assert "geheim" not in done.stderr


@pytest.mark.parametrize("command", ["up", "keys list"])
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_data_folder_that_cannot_be_written_is_one_line(short_path: Path, command: str, below: str):
    file = short_path / "file"
    file.touch()
    done = run({"MNEMOLOG_DATA_DIR": str(file / below), "MNEMOLOG_PORT": str(free_port())}, *command.split())
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {file}")
    assert len(done.stderr.splitlines()) == 1
    assert "MNEMOLOG_DATA_DIR" in done.stderr


def test_a_child_that_never_starts_ends_up_with_its_reason_and_not_with_one_of_an_earlier_run(
    short_path: Path, cache_dir: Path
):
    """The reason is one line of this run's log; what the child said before is not quoted."""
    (short_path / "data" / "logs").mkdir(parents=True)
    for name in ("api", "worker"):
        (short_path / "data" / "logs" / f"{name}.log").write_text("error: of yesterday\n")
    variables = {
        "MNEMOLOG_DATA_DIR": str(short_path / "data"),
        "MNEMOLOG_CACHE_DIR": str(cache_dir),
        "MNEMOLOG_PORT": str(free_port()),
        "MNEMOLOG_EMBEDDER": "none",
        "MNEMOLOG_MCP_PROFILE": "nonsense",
    }
    done = run(variables, "up")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert " does not start: MNEMOLOG_MCP_PROFILE: there is no MCP profile 'nonsense'" in last
    assert "yesterday" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
async def test_a_child_that_dies_once_in_start_up_is_started_again(short_path: Path, cache_dir: Path):
    with up(short_path / "data", cache_dir, free_port()) as running:
        victims: set[int] = set()

        def found() -> bool:
            children = running.children()
            victims.update(pid for name, pid in children.items() if name in ("api", "worker"))
            return len(victims) >= 2

        await wait_until(found)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        await running.wait_ready()
        assert not victims & set(running.children().values())
        assert running.stop() == 0


# commands against a running server


def commands_of(server: Server) -> dict[str, str]:
    """The variables with which the command line finds a server."""
    return {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": server.secret}


def test_the_demo_finds_every_answer(server: Server):
    """Played twice: the second time nothing is new."""
    for again in (False, True):
        played = run(commands_of(server), "demo", "--exit", "--json")
        assert played.returncode == 0, played.stdout[-2000:] + played.stderr
        report = json.loads(played.stdout)
        assert report["missed"] == []
        assert report["degraded"] == []
        assert bool(report["accepted"]) is not again
        assert bool(report["duplicates"]) is again
        assert report["context"]["tokens"] <= report["context"]["token_budget"]
        assert played.stderr == ""


def test_what_the_command_line_writes_it_finds(server: Server, project: str):
    variables = commands_of(server)
    written = run(variables, "observe", "the tests are red", "--project", project, "--session", "s1", "--json")
    assert written.returncode == 0, written.stderr
    told = json.loads(written.stdout)
    assert told["id"].startswith("obs_")
    found = run(variables, "recall", "tests red?", "--project", project, "--after", told["position"], "--json")
    assert found.returncode == 0, found.stderr
    assert [one["id"] for one in json.loads(found.stdout)["results"]] == [told["id"]]
    kept = run(variables, "remember", "-", "--project", project, "--tags", "a,b", "--json", text="from a pipe\n")
    assert kept.returncode == 0, kept.stderr
    learned = run(variables, "lesson", "look twice", "--project", project, "--json")
    assert json.loads(learned.stdout)["id"].startswith("lsn_")
    nothing = run(variables, "recall", "x", "--project", f"{project}-empty", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["results"]) == (1, [])


def test_lag_tells_how_far_the_projections_are(server: Server):
    started = time.monotonic()
    while True:
        shown = run(commands_of(server), "lag", "--json", "--max", "0")
        report = json.loads(shown.stdout)
        assert len(report["partitions"]) == 16
        assert shown.returncode == (1 if report["lag"] else 0)
        if not report["lag"]:
            break
        assert time.monotonic() - started < 20
    assert report["dead_letters"] == 0


def test_tail_prints_the_log_as_json_lines(server: Server, project: str):
    session = f"{project}-s"
    run(commands_of(server), "observe", "first", "--project", project, "--session", session)
    shown = run(commands_of(server), "tail", "--no-follow", "--session", session, "--json")
    assert shown.returncode == 0, shown.stderr
    assert [json.loads(line)["data"]["content"] for line in shown.stdout.splitlines()] == ["first"]


async def test_a_log_that_is_printed_is_in_the_order_of_time(tenants: tuple[Tenant, Tenant]):
    """Whichever partitions and pages the events are in; each once, also from a position on."""
    (tenant, _), batches, each = tenants, 12, PAGE // 5
    async with tenant.client() as client:
        for batch in range(batches):
            commands = [{"type": "observe", "content": f"note {batch}.{n}", "session_id": f"s{n}"} for n in range(each)]
            answer = await client.post("/v1/events", json=commands)
            assert answer.status_code == 202, answer.text

    def printed(*options: str) -> list[dict[str, Any]]:
        shown = run(tenant.variables, "tail", "--no-follow", "--json", *options)
        assert shown.returncode == 0, shown.stderr
        return [json.loads(line) for line in shown.stdout.splitlines()]

    events = printed("--type", "observation.recorded")
    assert len({event["position"] for event in events}) == len(events) == batches * each > 2 * PAGE
    assert len({event["position"].partition(":")[0] for event in events}) == 4
    times = [datetime.fromisoformat(event["recorded_at"]) for event in events]
    assert times == sorted(times)
    everything = printed()
    half = len(everything) // 2
    behind = ",".join({one["position"].partition(":")[0]: one["position"] for one in everything[:half]}.values())
    rest = printed("--after", behind)
    assert [one["position"] for one in rest] == [one["position"] for one in everything[half:]]


def test_a_command_says_why_it_failed(server: Server):
    """No server: 3. A wrong secret, a bad value: 1. With --json the error is JSON."""
    nobody = run({"MNEMOLOG_URL": f"http://127.0.0.1:{free_port()}"}, "lag", "--json")
    assert (nobody.returncode, json.loads(nobody.stdout)["error"]["code"]) == (3, "unreachable")
    stranger = run({"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET[:-1]}, "lag", "--json")
    assert (stranger.returncode, json.loads(stranger.stdout)["error"]["code"]) == (1, "unauthorized")
    empty = run(commands_of(server), "remember", " ", "--json")
    assert empty.returncode in (1, 2)
    unknown = run({"MNEMOLOG_PROT": "1"}, "up")
    assert unknown.returncode == 1
    assert "MNEMOLOG_PROT" in unknown.stderr
    assert "Traceback" not in unknown.stderr


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
LONG_S = 8
"""Unless it is told not to, onnxruntime asks for its maker's host within this time."""


@pytest.fixture
def home(short_path: Path) -> dict[str, str]:
    """The environment of a user who has set nothing, at home in an empty folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(short_path), "MNEMOLOG_PORT": str(free_port())}


def written_outside(home: Path) -> list[str]:
    """Files below a home folder that are in no folder of ours."""
    found = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    return sorted(str(path) for path in found if "mnemolog" not in path.parts)


def test_up_with_its_demo_looks_up_no_name_and_leaves_nothing_in_the_cache(home: dict[str, str], short_path: Path):
    """With the default embedder, and with an environment that asks for telemetry."""
    asking = {**home, "ORT_DISABLE_TELEMETRY": "0"}
    code, said, names = looked_up([sys.executable, "-m", "tests.support.up_for_a_while", str(LONG_S)], asking, 220)
    assert code == 0, said
    assert "mnemolog is up" in " ".join(said.split())
    assert names == set()
    assert written_outside(short_path) == []


def test_whatever_embeds_does_so_through_the_file_that_switches_telemetry_off():
    """Benchmarks and examples, too: their processes then look up what `up` does."""
    importing = re.compile(r"^\s*(?:import|from) onnxruntime", re.MULTILINE)
    folders = ("api", "benchmarks", "examples", "ingest", "mcp_gateway", "projections", "tests", "workers")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if importing.search(path.read_text())]
    assert files == [ROOT / "projections" / "embedding" / "onnx.py"]


def test_a_name_that_is_looked_up_is_noticed(home: dict[str, str]):
    """By C code, as the resolver of the system is."""
    asked = "import socket\ntry: socket.getaddrinfo('telemetry.example', 443)\nexcept OSError: print('refused')"
    assert looked_up([sys.executable, "-c", asked], home, 60) == (0, "refused\n", {"telemetry.example"})
