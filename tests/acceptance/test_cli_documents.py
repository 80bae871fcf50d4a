"""The commands on documents, as a person types them: what they print, what they change, how they exit."""

import json
from typing import Any

import pytest
from commands import run
from terminal import at_terminal
from waiting import wait_until

from tests.acceptance.running import Server, Tenant, new_tenant, until_ready


class Cli:
    """The command line of somebody who works on one project."""

    def __init__(self, server: Server, project: str, key: str = "") -> None:
        self.project = project
        self.variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": key or server.secret, "COLUMNS": "120"}

    def __call__(self, *arguments: str, code: int = 0, text: str = "") -> str:
        """What a command prints for people; it must exit with `code`."""
        done = run(self.variables, *arguments, text=text)
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def json(self, *arguments: str, code: int = 0, text: str = "") -> Any:
        """What it prints for scripts: one JSON document and nothing else."""
        done = run(self.variables, *arguments, "--json", text=text)
        assert (done.returncode, done.stderr) == (code, ""), f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    async def seen(self, *arguments: str) -> Any:
        """The answer of a reading command as soon as it exits 0: what was just written is projected by then."""
        found: list[Any] = []

        def answers() -> bool:
            done = run(self.variables, *arguments, "--json")
            found[:] = [json.loads(done.stdout)]
            return done.returncode == 0

        await wait_until(answers)
        return found[0]


@pytest.fixture
def cli(server: Server, project: str) -> Cli:
    return Cli(server, project)


async def test_a_project_that_does_not_exist_is_said_with_similar_names(cli: Cli):
    cli.json("remember", "deploys go out on Tuesdays", "-p", cli.project)
    await cli.seen("recall", "what did we do today?", "-p", cli.project)
    said = f"project '{cli.project}x' has no searchable documents that you can read; similar: '{cli.project}'"
    for command in (["recall", "deploys", "-p"], ["memories", "-p"], ["lessons", "-p"], ["actions", "-p"]):
        assert said in " ".join(cli(*command, f"{cli.project}x", code=1).split())
    assert said in " ".join(cli("context", "-p", f"{cli.project}x").split())


async def test_a_memory_is_listed_revised_confirmed_and_shown_with_its_versions(cli: Cli):
    kept = cli.json("remember", "deploys go out on Tuesdays", "-p", cli.project, "-a", "ada", "-t", "deploy")
    listed = await cli.seen("memories", "-p", cli.project)
    assert [one["id"] for one in listed["items"]] == [kept["id"]]
    newer = cli.json("memories", "revise", kept["id"], "-", "--agent", "ada", text="deploys go out on Fridays")

    def revised() -> bool:
        return len(cli.json("show", kept["id"])["versions"]) == 2

    await wait_until(revised)
    shown = cli("show", kept["id"][:12])
    for told in (kept["id"], newer["id"], "ada", "deploy", "Tuesdays", "Fridays", "2 (newest)", "superseded by"):
        assert told in shown
    assert [one["version"] for one in cli.json("memories", "history", newer["id"])["items"]] == [1, 2]
    assert "Fridays" in cli("memories", "list", "-p", cli.project)
    assert "Tuesdays" not in cli("memories", "list", "-p", cli.project)
    assert "replaced" in cli("memories", "list", "--all", "-p", cli.project)
    assert "Fridays" in cli("memories", "-p", cli.project, "--since", "2026-01-01", "--until", "2999-01-01")
    assert "No results" in cli("memories", "-p", cli.project, "--until", "2026-01-01", code=1)
    assert "not a valid time" in cli("memories", "--since", "yesterday", code=2)
    assert newer["id"] in cli("confirm", newer["id"])
    assert "say what to change" in cli("memories", "revise", newer["id"], code=2)


async def test_a_memory_says_until_when_it_is_valid(cli: Cli):
    said = ("nothing is deployed before the audit", "-p", cli.project, "-a", "ada", "--valid-until", "2190-03-01T12:00")
    kept = cli.json("remember", *said)
    asked = ("recall", "deployed before the audit", "-p", cli.project, "--min-confidence", "0")
    found = await cli.seen(*asked)
    assert [one["id"] for one in found["results"]] == [kept["id"]]
    for command in (asked, ("memories", "-p", cli.project), ("show", kept["id"])):
        assert "valid until" in " ".join(cli(*command).split())
    assert kept["id"] in cli(*asked, "--as-of", "2190-02-28")
    assert "No results" in cli(*asked, "--as-of", "2190-03-02", code=1)
    assert "not a valid time" in cli(*asked, "--as-of", "then", code=2)
    ended = cli.json("memories", "revise", kept["id"], "--valid-until", "2020-01-01", "-a", "ada")
    assert "no searchable documents" in cli(*asked, "--after", ended["position"], code=1)


async def test_a_session_is_shown_with_its_turns_and_an_observation_with_its_input_and_output(cli: Cli):
    data = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_output": "14 passed"}
    seen = cli.json("observe", "", "-p", cli.project, "-s", "night-shift", "--data", json.dumps(data))
    sessions = await cli.seen("sessions", "--project", cli.project)
    assert [one["id"] for one in sessions["items"]] == ["night-shift"]
    session = cli.json("sessions", "show", "night-shift", "-p", cli.project)
    assert [one["id"] for one in session["turns"]["items"]] == [seen["id"]]
    assert session["summary"] is None
    told = cli("sessions", "show", "night-shift", "-p", cli.project)
    assert "make test" in told
    assert seen["id"] in told
    observation = cli("show", seen["id"])
    told_input, told_output = observation.index("\ninput"), observation.index("\noutput")
    assert told_input < observation.index("make test", told_input) < told_output < observation.rindex("14 passed")
    assert "night-shift" in cli("show", "night-shift", "-p", cli.project)
    assert "no session" in cli("show", f"{cli.project}-nobody", code=1)


async def test_lessons_are_matched_reinforced_and_retired(cli: Cli):
    learned = cli.json("lesson", "quote file names", "-p", cli.project)
    await cli.seen("lessons", "-p", cli.project)
    cli.json("lessons", "reinforce", learned["id"])

    def reinforced() -> bool:
        return cli.json("show", learned["id"])["reinforcements"] == 1

    await wait_until(reinforced)
    assert "No results" in cli("lessons", "match", "Bash", "--preview", "rm -rf x", "-p", cli.project, code=1)
    assert cli("lessons", "retire", learned["id"]).startswith(f"retired {learned['id']} at ")

    def retired() -> bool:
        return not cli.json("show", learned["id"])["active"]

    await wait_until(retired)


async def test_slots_are_set_added_to_read_and_deleted(cli: Cli):
    cli.json("slots", "set", "release_notes", "Ask first.", "-p", cli.project, "--size-limit", "40", "--not-pinned")
    await cli.seen("slots", "get", "release_notes", "-p", cli.project)
    added = cli.json("slots", "append", "release_notes", "-", "-p", cli.project, text="Then twice.")
    assert added["position"]

    def both() -> bool:
        return cli("slots", "get", "release_notes", "-p", cli.project) == "Ask first.\nThen twice.\n"

    await wait_until(both)
    assert "holds 22 of 40" in cli("slots", "append", "release_notes", "x" * 40, "-p", cli.project, code=1)
    listed = cli("slots", "-p", cli.project)
    assert "22 of 40" in listed
    assert "not in contexts" in listed
    assert "pass --yes" in cli("slots", "delete", "release_notes", "-p", cli.project, code=2)
    cli("slots", "delete", "release_notes", "-p", cli.project, "--yes")


async def test_actions_are_done_in_their_order(cli: Cli):
    first = cli.json("actions", "add", "build the image", "-p", cli.project, "--priority", "2")
    second = cli.json("actions", "add", "deploy it", "-p", cli.project, "--priority", "9", "--requires", first["id"])

    def listed(command: str) -> list[str]:
        shown = run(cli.variables, "actions", command, "-p", cli.project, "--json")
        return [one["id"] for one in json.loads(shown.stdout)["items"]]

    def frontier() -> list[str]:
        return listed("frontier")

    await wait_until(lambda: len(listed("list")) == 2)
    assert frontier() == [first["id"]]
    assert f"after {first['id']}" in cli("actions", "-p", cli.project)
    cli("actions", "done", first["id"], "--result", "pushed")
    await wait_until(lambda: frontier() == [second["id"]])
    assert "build the image" not in cli("actions", "list", "--open", "-p", cli.project)


async def test_claims_are_listed_extended_and_ended_with_their_token(cli: Cli):
    key = cli.json("actions", "add", "rotate the keys", "-p", cli.project, "-t", "security")["id"]
    told = cli("actions", "next", "-p", cli.project, "--label", "security", "--agent", "ada")
    token = cli.json("show", key)["token"]
    assert f"token {token}: rotate the keys" in told
    assert "ada works on this action until" in cli("actions", "claim", key, "--agent", "bob", code=1)
    for command in ("list", "frontier"):
        assert "claimed until" in cli("actions", command, "-p", cli.project)
    assert cli.json("actions", "renew", key, "--token", token, "--lease", "900")["token"] == token
    cli("actions", "release", key, "--token", token)
    assert "the claim of this token has ended" in cli("actions", "done", key, "--token", token, code=1)
    again = cli.json("actions", "claim", key, "--agent", "bob")
    cli("actions", "done", key, "--token", again["token"])
    assert "no action" in cli("actions", "next", "-p", cli.project, "--agent", "bob", code=1)


async def test_a_change_of_another_version_changes_nothing_and_exits_1(cli: Cli):
    key = cli.json("remember", "deploys go out on Tuesdays", "-p", cli.project)["id"]
    assert cli.json("memories", "revise", key, "on Fridays", "--if-version", "1")["version"] == 2
    assert "is at version 2" in cli("memories", "revise", key, "on Mondays", "--if-version", "1", code=1)
    assert "say what to change" in cli("memories", "revise", key, "--if-version", "2", code=2)
    assert cli.json("slots", "set", "plan", "one", "-p", cli.project, "--if-version", "0")["version"] == 1


async def test_a_context_is_printed_as_an_agent_gets_it(cli: Cli):
    kept = cli.json("remember", "money is kept in integer cents", "-p", cli.project)
    found = run(cli.variables, "recall", "money?", "-p", cli.project, "--after", kept["position"], "--json")
    assert found.returncode == 0, found.stderr
    told = run(cli.variables, "context", "-p", cli.project, "--tokens", "500")
    assert told.stdout.startswith(f'<mnemolog-context project="{cli.project}">\n')
    assert "integer cents" in told.stdout
    assert "of 500 tokens" in told.stderr
    assert cli.json("context", "-p", cli.project, "--tokens", "500")["context"] == told.stdout.rstrip("\n")


async def test_forgetting_asks_first_waits_and_prints_the_receipt(cli: Cli):
    kept = cli.json("remember", "a secret recipe", "-p", cli.project)
    await cli.seen("show", kept["id"])
    assert "pass --yes" in cli("forget", kept["id"], code=2)
    assert f"forgotten {kept['id']}" in cli("forget", kept["id"], "--yes")
    assert "there is no document" in cli("forget", kept["id"], "--yes", code=1)
    cli.json("observe", "hello", "-p", cli.project, "-s", "short")
    await cli.seen("sessions", "-p", cli.project)
    assert "pass --yes" in cli("forget", "project", cli.project, code=2)
    receipt = cli.json("forget", "project", cli.project, "--yes", "--reason", "asked to")
    assert (receipt["status"], receipt["probe"]["found"]) == ("done", 0)
    assert receipt["removed"]["documents"] == {"observation": 1, "session": 1}
    told = cli("forget", "project", cli.project, "--yes")
    assert "done" in told
    assert "is not a document id" in cli("forget", "nonsense", code=2)
    assert "name one user" in cli("forget", "user", code=2)


async def test_at_a_terminal_forgetting_asks_and_nothing_but_a_yes_is_one(cli: Cli):
    kept = cli.json("remember", "a secret recipe", "-p", cli.project)
    await cli.seen("show", kept["id"])
    code, shown = at_terminal(cli.variables, "forget", kept["id"], answers={"Permanently delete": "\n"})
    assert (code, "a secret recipe" in shown, "nothing was changed" in shown) == (1, True, True)
    assert cli.json("show", kept["id"])["content"] == "a secret recipe"
    code, shown = at_terminal(cli.variables, "forget", "project", cli.project, answers={"Permanently delete": "y\n"})
    assert code == 0, shown
    assert "found afterward" in shown
    assert "there is no document" in cli("show", kept["id"], code=1)


async def test_a_session_is_forgotten_without_a_receipt_by_a_key_that_is_no_admins(server: Server, project: str):
    tenant: Tenant = await new_tenant(server, f"tenant-of-{project}")
    admin = Cli(server, project, tenant.key)
    admin.json("observe", "hello", "-p", project, "-s", "short")
    await admin.seen("sessions", "-p", project)
    async with tenant.client() as client:
        made = await client.post("/v1/admin/keys", json={"name": "agent", "roles": ["read", "write"]})
    agent = Cli(server, project, made.json()["key"])

    async with server.client(secret=made.json()["key"]) as client:
        await until_ready(client)
    assert "forgotten session short (1 observation, 1 session)" in agent("forget", "session", "short", "--yes")
    refused = agent("forget", "user", "ada", "--yes", code=1)
    assert "admin" in refused


async def test_a_document_is_put_into_quarantine_and_taken_out(cli: Cli):
    kept = cli.json("remember", "the vault is open on Mondays", "-p", cli.project)
    asked = ("recall", "when is the vault open?", "-p", cli.project, "--min-confidence", "0")
    await cli.seen(*asked)
    assert f"hidden {kept['id']}" in cli("quarantine", "add", kept["id"], "--reason", "planted")
    await cli.seen("quarantine", "list", "-p", cli.project)
    assert "the vault is open" in cli("quarantine", "list", "-p", cli.project)
    cli(*asked, code=1)
    assert f"released {kept['id']}" in cli("quarantine", "release", kept["id"])
    await cli.seen(*asked, "--min-trust", "user_stated")
    cli("quarantine", "list", "-p", cli.project, code=1)
    assert "there is no memory" in cli("quarantine", "add", "mem_0", code=1)
