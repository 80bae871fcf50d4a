"""Growing a log as an operator meets it: stop, `mnemolog grow`, start with more partitions; and back."""

import json
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.running import PATIENT_READ_S
from tests.support.commands import ROOT, command_line, environment, run
from tests.support.ports import free_port

START_S = 60.0


class Installation:
    """A data folder with an embedded server, and how many partitions its log has."""

    def __init__(self, folder: Path, cache_dir: Path, partitions: int) -> None:
        self.data, self._errors = folder / f"of-{partitions}", folder / "errors"
        self.variables = {
            "MNEMOLOG_DATA_DIR": str(self.data),
            "MNEMOLOG_CACHE_DIR": str(cache_dir),
            "MNEMOLOG_PORT": str(free_port()),
            "MNEMOLOG_PARTITIONS": str(partitions),
            "MNEMOLOG_EMBEDDER": "none",
            "MNEMOLOG_READ_WAIT": str(PATIENT_READ_S),
        }

    @contextmanager
    def up(self) -> Generator[httpx.Client]:
        """A client of `mnemolog up`, which is stopped with Ctrl-C."""
        with self._errors.open("wb") as output:
            process = subprocess.Popen(
                command_line("up"), env=environment(**self.variables), cwd=ROOT, stdout=output, stderr=output
            )
        try:
            deadline = time.monotonic() + START_S
            while "mnemolog is up" not in (said := self._errors.read_text()):
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
            url = f"http://127.0.0.1:{self.variables['MNEMOLOG_PORT']}"
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_S)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with these settings to its end."""
        return run(self.variables, *arguments)


def write(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    """Write something; the acknowledgement."""
    return client.post(path, json={"project": "shop", **body}).raise_for_status().json()


def test_a_log_is_grown_and_goes_on_and_the_old_one_is_left_alone(short_path: Path, cache_dir: Path):
    old, new = (Installation(short_path, cache_dir, partitions) for partitions in (2, 6))
    memory = {"content": "We deploy on Tuesdays", "event_id": "m1"}
    with old.up() as client:
        kept = write(client, "/v1/memories", **memory)
        seen = [write(client, "/v1/observations", session_id=f"s{n}", content="tests are red") for n in range(12)]
        everything = ",".join(one["position"] for one in (kept, *seen))
        client.get("/v1/memories", params={"after": everything}).raise_for_status()
        page = client.get("/v1/events", params={"limit": 5}).json()
        in_use = new.run("grow", "--from", str(old.data))
        assert (in_use.returncode, "stop it first" in in_use.stderr) == (1, True), in_use.stderr
    done = new.run("grow", "--from", str(old.data), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["partitions"], report["events"]) == (6, 13)
    assert report["tenants"] == {"default": {"memory.recorded": 1, "observation.recorded": 12}}

    with new.up() as client:
        again = write(client, "/v1/memories", **memory)
        assert (again["id"], again["duplicate"]) == (kept["id"], True)
        found = client.get("/v1/memories", params={"project": "shop", "after": again["position"]}).raise_for_status()
        assert [one["id"] for one in found.json()["items"]] == [kept["id"]]
        refused = client.get("/v1/events", params={"after": page["next"]})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        assert "from before this log got more partitions" in refused.json()["detail"]
        page = client.get("/v1/events", params={"limit": 5}).json()
        rest = client.get("/v1/events", params={"after": page["next"]}).json()
        assert len({one["event_id"] for one in (*page["events"], *rest["events"])}) == 13 == 5 + len(rest["events"])
        later = write(client, "/v1/memories", content="and never on Fridays")
        assert client.get(f"/v1/memories/{later['id']}", params={"after": later["position"]}).status_code == 200
        other = client.get("/v1/memories", params={"project": "shop", "after": "1:1700000000000-0"})
        assert (other.status_code, other.json()["code"]) == (422, "invalid")
        assert "another log" in other.json()["detail"]

    refused = old.run("up")
    assert refused.returncode == 1
    assert "grown into one of 6 partitions" in " ".join(refused.stderr.split())
    assert "mnemolog grow --back" in " ".join(refused.stderr.split())
    assert "may start on this log again" in old.run("grow", "--back").stdout
    assert "did not move" in old.run("grow", "--back").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say --from OLD"),
        (("--from", "/nowhere"), "neither the URL"),
        (("--from", "x", "--back"), "say --from OLD"),
    ],
)
def test_what_cannot_be_meant_is_refused(short_path: Path, cache_dir: Path, words: tuple[str, ...], said: str):
    done = Installation(short_path, cache_dir, 4).run("grow", *words)
    assert done.returncode == 2
    assert said in done.stderr
