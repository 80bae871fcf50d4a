"""Backups and the archive as an operator meets them, with real processes."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from commands import ROOT, command_line, environment, run
from hub_stub import REPOSITORY, TOKEN, HubStub
from ports import free_port

from ingest.log.store import DirectoryStore
from projections.maintenance.backups import INDEX, BackupManifest, StoreTarget, listed
from tests.acceptance.running import PATIENT_READ_S

START_S = 60.0
SECRET_WORD = "zqxvkmarker7"


class DocumentLocation:
    """The folders of one installation, and the variables that name them. No embedder; two partitions."""

    def __init__(self, folder: Path, cache_dir: Path, **variables: str) -> None:
        self.data, self.backups, self.errors = folder / "data", folder / "backups", folder / "errors"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.variables = {
            "MNEMOLOG_DATA_DIR": str(self.data),
            "MNEMOLOG_CACHE_DIR": str(cache_dir),
            "MNEMOLOG_PORT": str(port),
            "MNEMOLOG_PARTITIONS": "2",
            "MNEMOLOG_EMBEDDER": "none",
            "MNEMOLOG_BACKUP": str(self.backups),
            "MNEMOLOG_BACKUP_EVERY": "1",
            "MNEMOLOG_READ_WAIT": str(PATIENT_READ_S),
            **variables,
        }

    @contextmanager
    def up(self, **variables: str) -> Generator[httpx.Client]:
        """A client of `mnemolog up`, which is stopped with Ctrl-C."""
        with self.errors.open("wb") as output:
            process = subprocess.Popen(
                command_line("up"), env=environment(**{**self.variables, **variables}), cwd=ROOT, stdout=output,
                stderr=output,
            )  # fmt: skip
        try:
            eventually(lambda: _is_up(process, self.errors), START_S)
            with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
                yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_S)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return run({**self.variables, **variables}, *arguments)

    def held(self) -> bytes:
        """All bytes of all backups in the directory, unpacked."""
        found: list[bytes] = []
        for path in sorted(self.backups.rglob("*")):
            try:
                content = path.read_bytes() if path.is_file() else b""
            except FileNotFoundError:  # deleted a moment ago
                continue
            found.append(
                zstandard.ZstdDecompressor().decompressobj().decompress(content) if content[:4] == _ZSTD else content
            )
        return b"\n".join(found)


_ZSTD = b"\x28\xb5\x2f\xfd"


def eventually(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Return as soon as something holds."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"still waiting after {timeout_s} s"
        time.sleep(0.05)


def _is_up(process: subprocess.Popen[bytes], errors: Path) -> bool:
    """Whether it says so: its API is ready then, and a worker alive."""
    said = errors.read_text()
    assert process.poll() is None, said
    return "mnemolog is up" in said


def listed_memories(client: httpx.Client) -> dict[str, Any]:
    """A page of the project's memories, as far as they are projected."""
    return client.get("/v1/memories", params={"project": "shop"}).raise_for_status().json()


@pytest.fixture
def place(short_path: Path, cache_dir: Path) -> DocumentLocation:
    return DocumentLocation(short_path, cache_dir)


def write(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    """Write something; the acknowledgement."""
    answer = client.post(path, json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def export(client: httpx.Client) -> bytes:
    """Everything the log has."""
    return client.get("/v1/admin/export").raise_for_status().content


def newest(place: DocumentLocation) -> BackupManifest | None:
    """The newest backup in the directory."""
    found = listed(StoreTarget(DirectoryStore(place.backups)), place.backups)
    return found[-1].manifest if found else None


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a command reported, which succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_server_that_lost_everything_starts_with_its_newest_backup(place: DocumentLocation):
    memory = {"project": "shop", "content": "We deploy on Tuesdays", "event_id": "m1"}
    observation = {"project": "shop", "session_id": "s1", "content": "tests are red", "event_id": "o1"}
    with place.up() as client:
        kept = write(client, "/v1/memories", **memory)
        gone = write(client, "/v1/memories", project="shop", content=f"the word is {SECRET_WORD}")
        seen = write(client, "/v1/observations", **observation)
        client.get(f"/v1/memories/{gone['id']}", params={"after": gone["position"]}).raise_for_status()
        forgotten = client.delete(f"/v1/memories/{gone['id']}").json()
        client.get("/v1/memories", params={"project": "shop", "after": forgotten["position"]}).raise_for_status()
        before = export(client)
        eventually(lambda: (found := newest(place)) is not None and found.events == len(before.splitlines()) - 2)
        eventually(lambda: SECRET_WORD.encode() not in place.held())
    shutil.rmtree(place.data)
    with place.up() as client:
        assert "restored backup" in place.errors.read_text()
        assert export(client) == before
        found = client.post("/v1/recall", json={"project": "shop", "query": "deploy", "after": kept["position"]}).json()
        assert [one["id"] for one in found["results"]] == [kept["id"]]
        for path, body, first in (("/v1/memories", memory, kept), ("/v1/observations", observation, seen)):
            again = write(client, path, **body)
            assert (again["id"], again["position"], again["duplicate"]) == (first["id"], first["position"], True)
        checks = client.get("/v1/diagnose", params={"categories": "storage"}).json()["checks"]
        assert [check["status"] for check in checks] == ["pass"]
        write(client, "/v1/memories", project="shop", content="and life goes on")
        assert len(export(client).splitlines()) == len(before.splitlines()) + 1


@pytest.mark.nightly
def test_a_project_that_is_forgotten_is_in_no_backup(place: DocumentLocation):
    with place.up(MNEMOLOG_PURGE_EVERY="1") as client:
        write(client, "/v1/memories", project="gone", content=f"the word is {SECRET_WORD}")
        write(client, "/v1/memories", project="shop", content="We deploy on Tuesdays")
        eventually(lambda: SECRET_WORD.encode() in place.held())
        receipt = write(client, "/v1/forget", kind="project", subject="gone")
        eventually(lambda: client.get(f"/v1/forget/{receipt['id']}").json()["status"] == "done", 90)
        eventually(lambda: SECRET_WORD.encode() not in place.held())
        assert b"We deploy on Tuesdays" in place.held()


@pytest.mark.nightly
def test_a_damaged_backup_stops_the_start_and_a_person_decides(place: DocumentLocation):
    with place.up(MNEMOLOG_BACKUP="") as client:
        write(client, "/v1/memories", project="shop", content="We deploy on Tuesdays")
        good = report(place.run("backup", "--json"))["backup"]["name"]
        write(client, "/v1/memories", project="shop", content="and on Fridays")
        bad = report(place.run("backup", "--json"))["backup"]["name"]
    (place.backups / bad / INDEX).write_bytes(b"")
    shutil.rmtree(place.data)
    started = place.run("up")
    assert started.returncode == 1
    assert f"backup {bad} is damaged" in started.stderr
    assert f"--backup {good}" in started.stderr.replace("\n", " ")
    (place.data / "snapshots" / "of-another-life").mkdir(parents=True)
    assert report(place.run("restore", "--backup", good, "--json"))["backup"]["name"] == good
    assert not (place.data / "snapshots").exists()
    with place.up(MNEMOLOG_BACKUP_EVERY="3600") as client:
        eventually(lambda: listed_memories(client)["items"] != [])
        assert [one["content"] for one in listed_memories(client)["items"]] == ["We deploy on Tuesdays"]


def test_the_command_line_moves_a_log_through_a_dataset_repository(
    short_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with HubStub() as hub:
        to_hub = {"AGENTMEMORY_DATASET_REPO": REPOSITORY, "HF_TOKEN": TOKEN, "HF_ENDPOINT": hub.url}
        place = DocumentLocation(short_path, cache_dir, MNEMOLOG_BACKUP="", **to_hub)
        nothing = place.run("restore")
        assert (nothing.returncode, nothing.stdout) == (1, "")
        assert f"there is no backup in hf://datasets/{REPOSITORY}" in nothing.stderr
        with place.up(AGENTMEMORY_DATASET_REPO="") as client:
            write(client, "/v1/memories", project="shop", content="We deploy on Tuesdays")
            made = report(place.run("backup", "--json"))
            assert made["target"] == f"hf://datasets/{REPOSITORY}"
            in_use = place.run("restore")
            assert in_use.returncode == 1
            assert "the log is not empty" in in_use.stderr
        name = made["backup"]["name"]
        assert [one["name"] for one in report(place.run("backups", "--json"))["backups"]] == [name]
        shutil.rmtree(place.data)
        done = place.run("restore")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"restored backup {name}: 1 events")
        assert report(place.run("backup", "--json"))["backup"] is None, "nothing has changed"


def test_a_log_is_put_back_to_a_moment_and_its_replay_proves_it(place: DocumentLocation):
    """An operator goes back to before a mistake; what is live then is no longer what the backup says."""
    with place.up(MNEMOLOG_BACKUP="") as client:
        good = [write(client, "/v1/memories", project="shop", content=f"shelf {k} is full") for k in range(6)]
        moment = client.get("/v1/memories", params={"project": "shop", "after": good[-1]["position"]}).json()
        for k in range(4):
            write(client, "/v1/memories", project="shop", content=f"nobody should have said {k}")
        made = report(place.run("backup", "--json"))["backup"]
        verified = report(place.run("backups", "verify", "--live", "--json"))
        assert (verified["backup"], verified["equals_live"], verified["parked"]) == (made["name"], True, {})
        assert sum(one["documents"].get("memory", 0) for one in verified["documents"].values()) == 10
    shutil.rmtree(place.data)
    restored = report(place.run("restore", "--at", good[-1]["position"], "--verify", "--json"))
    assert (restored["left_out"], restored["verified"]) == (4, True)
    with place.up(MNEMOLOG_BACKUP_EVERY="3600") as client:
        eventually(lambda: listed_memories(client) == moment)
        differs = place.run("backups", "verify", made["name"], "--live")
        assert (differs.returncode, "partition" in differs.stderr) == (1, True), differs.stderr
    records = next((place.backups / made["name"]).glob("segment-*-p00.zst"))
    content = bytearray(records.read_bytes())
    content[len(content) // 2] ^= 1
    records.write_bytes(content)
    damaged = place.run("backups", "verify", made["name"], "--json")
    assert (damaged.returncode, made["name"] in damaged.stdout + damaged.stderr) == (1, True), damaged.stderr


def test_what_is_no_place_is_refused(place: DocumentLocation):
    done = place.run("backups", MNEMOLOG_BACKUP="")
    assert (done.returncode, "name the backup location with --from or --to" in done.stderr) == (2, True), done.stderr


def test_a_server_that_does_not_answer_is_told(place: DocumentLocation):
    done = place.run("backup", REDIS_URL="redis://127.0.0.1:1")
    assert done.returncode == 3
    assert "Redis does not answer" in done.stderr


WORDS = [f"kettle number {n} is on the shelf" for n in range(40)]


@pytest.fixture
def archived(short_path: Path, cache_dir: Path) -> DocumentLocation:
    """An installation that archives by hand only: nothing is an hour old."""
    return DocumentLocation(short_path, cache_dir, MNEMOLOG_BACKUP="", MNEMOLOG_ARCHIVE=str(short_path / "archive"))


def test_an_archived_log_answers_as_before_and_damage_is_named(archived: DocumentLocation, short_path: Path):
    with archived.up() as client:
        *_, last = [write(client, "/v1/observations", session_id=f"s{len(text) % 3}", content=text) for text in WORDS]
        forgotten = write(client, "/v1/memories", content="a memory that goes")
        eventually(lambda: client.get(f"/v1/memories/{forgotten['id']}").status_code == 200)
        before = export(client)
        done = report(archived.run("archive", "seal", "--json"))
        assert done["trimmed"] == len(WORDS) + 1
        assert export(client) == before
        page = client.get("/v1/events", params={"limit": 1000}).json()["events"]
        assert len(page) == len(WORDS) + 1
        assert client.get("/v1/admin/projections").json()["partitions"][0]["lag"] == 0

        assert client.delete(f"/v1/memories/{forgotten['id']}").status_code == 202
        assert client.post("/v1/admin/purge").status_code == 202
        segments = short_path / "archive"
        eventually(lambda: any("segment-0000000002" in path.name for path in segments.rglob("*.zst")))
        assert client.post("/v1/admin/rebuilds").status_code == 202
        eventually(lambda: all(partition["generation"] == 2 for partition in _partitions(client)))
        asked = {"query": WORDS[7], "mode": "lexical", "after": str(last["position"])}
        found = client.post("/v1/recall", json=asked).json()["results"]
        assert WORDS[7] in [one["content"] for one in found]

    told = report(archived.run("archive", "--json"))["partitions"]
    assert sum(one["entries"] for one in told) > len(WORDS)
    assert all(one["sealed"] == one["trimmed"] for one in told)
    assert "intact" in archived.run("archive", "verify").stdout
    broken = next(path for path in sorted(segments.rglob("segment-*")) if path.stat().st_size > 300)
    broken.write_bytes(broken.read_bytes()[:-5])
    verified = archived.run("archive", "verify")
    assert verified.returncode == 1
    assert broken.name in verified.stdout


def _partitions(client: httpx.Client) -> list[dict[str, int]]:
    return client.get("/v1/admin/projections").json()["partitions"]
