"""Faults that are to be expected are one line and an exit code, in every command that talks to a server."""

import json
from pathlib import Path

import pytest

from api.cli import main
from tests.support.commands import run
from tests.support.fake_api import FakeServer, listening

COMMANDS = [
    "observe hello", "remember hello", "lesson hello", "recall hello", "context", "show mem_1", "show s1",
    "confirm mem_1",
    "feedback wrong mem_1",
    "forget mem_1 --yes", "forget user ada --yes", "sessions", "sessions show s1", "memories", "memories history mem_1",
    "memories revise mem_1 x", "lessons", "lessons match Bash", "lessons reinforce lsn_1", "lessons retire lsn_1",
    "slots",
    "slots get guidance", "slots set guidance x", "slots append guidance x", "slots delete guidance --yes", "actions",
    "actions frontier", "actions add x", "actions done act_1", "actions claim act_1", "actions next",
    "actions renew act_1 --token 0:1-0", "actions release act_1 --token 0:1-0",
    "tail --no-follow", "lag", "health", "open",
    "demo --exit", "reconcile", "rebuild status", "dead-letters list", "dead-letters show 0:1-0", "export",
    "mirror nowhere --dry-run",
    "skills export nowhere",
    "inbox list", "inbox approve mem_1", "inbox reject mem_1",
    "quarantine list", "quarantine add mem_1", "quarantine release mem_1",
]  # fmt: skip
LENIENT = {"open"}
"""Says where the page is, which asks for the key itself."""


@pytest.fixture
def fake() -> FakeServer:
    answering_nothing = FakeServer()
    answering_nothing.answers.clear()
    return answering_nothing


def fails(command: str, variables: dict[str, str], code: int, *told: str) -> None:
    """It exits with the code and one line that tells that; with --json what stdout has is JSON, and stderr is empty."""
    done = run(variables, *command.split())
    assert done.returncode == code, (command, done.stdout, done.stderr)
    assert done.stderr.startswith("error: "), (command, done.stderr)
    assert len(done.stderr.splitlines()) == 1, (command, done.stderr)
    assert not [one for one in told if one not in done.stderr], (command, done.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_server(command: str):
    fails(command, {"MNEMOLOG_URL": "http://127.0.0.1:1"}, 3, "no server at http://127.0.0.1:1", "mnemolog up")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_address(command: str):
    fails(f"{command} --url nonsense", {}, 2, "'nonsense'", "--url")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in LENIENT])
def test_a_wrong_key(command: str, fake: FakeServer):
    fake.everything = (401, {"code": "unauthorized", "detail": "no"})
    with listening(fake) as url:
        variables = {"MNEMOLOG_URL": url, "MNEMOLOG_SECRET": "mnk_x"}
        fails(command, variables, 1, "wrong, expired or revoked", "mnemolog admin keys store")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in LENIENT])
def test_a_key_without_the_role_that_is_needed(command: str, fake: FakeServer):
    fake.everything = (403, {"code": "forbidden", "detail": "the key has not the role operator"})
    with listening(fake) as url:
        fails(command, {"MNEMOLOG_URL": url}, 1, "the key has not the role operator")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_has_not_what_is_asked(command: str, fake: FakeServer):
    fake.everything = (404, {"code": "not_found", "detail": "Not Found"})
    fake.answers["GET /openapi.json"] = (200, {"info": {"version": "0.0.9"}})
    with listening(fake) as url:
        fails(command, {"MNEMOLOG_URL": url}, 1, "0.0.9")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in {"export", "open"}])
def test_a_server_that_answers_something_else(command: str, fake: FakeServer):
    fake.everything = (200, {})
    with listening(fake) as url:
        fails(command, {"MNEMOLOG_URL": url}, 1, "another version")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "export"])
def test_what_is_no_mnemolog(command: str, fake: FakeServer):
    fake.everything = (200, None)
    fake.raw = b"<html>"
    with listening(fake) as url:
        fails(command, {"MNEMOLOG_URL": url}, 1, "is it a mnemolog server")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.split()[0] not in {"health", "open"}])
def test_a_server_whose_redis_is_away(command: str, fake: FakeServer):
    fake.everything = (503, {"code": "log_unavailable", "detail": "the log is away"})
    with listening(fake) as url:
        fails(command, {"MNEMOLOG_URL": url}, 1, "the log is away")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in {*LENIENT, "export"}])
def test_scripts_get_the_fault_as_json(command: str, fake: FakeServer):
    fake.everything = (403, {"code": "forbidden", "detail": "no"})
    with listening(fake) as url:
        done = run({"MNEMOLOG_URL": url}, *command.split(), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout) == {"error": {"code": "forbidden", "message": "no"}}


def test_a_key_that_others_can_read_is_not_sent(tmp_path: Path):
    place = tmp_path / ".config/mnemolog/keys/127.0.0.1_1"
    place.parent.mkdir(parents=True)
    place.write_text("mnk_x")
    place.chmod(0o644)
    variables = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "MNEMOLOG_URL": "http://127.0.0.1:1"}
    fails("memories", variables, 2, str(place), "chmod 600")


def test_every_command_of_a_server_is_tried_here():
    """Those that are left out work on this machine, or run until they are stopped."""
    local = {
        "up", "api", "worker", "mcp", "install", "uninstall", "doctor", "config", "logs", "keys", "backup", "backups",
        "restore", "archive", "log-file", "memory", "import",
    }  # fmt: skip
    assert {one.split()[0] for one in COMMANDS} == set(main.COMMANDS) - local
