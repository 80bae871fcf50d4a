"""`mnemolog keys` on a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from api.access.keys import parse
from api.cli.main import application
from ingest.embedded.valkey import EmbeddedValkey
from ingest.platform.connections import Client
from tests.support.terminal import at_terminal


class Keys:
    """The command, on the log's server."""

    def __init__(self, url: str, home: Path) -> None:
        self.variables = {
            "REDIS_URL": url, "MNEMOLOG_TENANT": "default", "HOME": str(home), "XDG_CONFIG_HOME": "",
            "MNEMOLOG_SECRET": "",
        }  # fmt: skip

    def run(self, *arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(application(), ["keys", *arguments], input=stdin, env=self.variables)

    def told(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def keys(redis: Client, valkey: EmbeddedValkey, tmp_path: Path) -> Keys:
    return Keys(valkey.url, tmp_path)


def test_a_key_is_made_and_shown_once(keys: Keys):
    made = keys.told("create", "fleet", "--role", "read,write", "--project", "shop", "--agent", "ada", "--days", "1")
    assert parse(made["key"]) is not None
    assert (made["tenant"], made["roles"], made["projects"], made["agents"]) == (
        "default", ["read", "write"], ["shop"], ["ada"],
    )  # fmt: skip
    shown = keys.told("show", made["id"])
    assert "key" not in shown
    assert made["key"] not in json.dumps(keys.told("list"))


def test_for_people_the_key_is_a_line_of_its_own(keys: Keys):
    done = keys.run("create", "fleet", "--role", "read")
    assert parse(done.stdout.strip()) is not None


def test_a_rotated_key_is_replaced_and_a_revoked_one_is_not_listed(keys: Keys):
    old = keys.told("create", "fleet", "--role", "read")
    new = keys.told("rotate", old["id"], "--grace-hours", "1")
    assert keys.told("show", old["id"])["replaced_by"] == new["id"]
    assert keys.told("revoke", old["id"])["status"] == "revoked"
    assert [key["id"] for key in keys.told("list")["keys"]] == [new["id"]]
    assert {key["id"] for key in keys.told("list", "--all")["keys"]} == {old["id"], new["id"]}


def test_only_the_first_key_says_what_asks_for_one_now(keys: Keys):
    assert "the server's first key" in keys.run("create", "first", "--role", "operator").stderr
    assert "the server's first key" not in keys.run("create", "second", "--role", "read").stderr


def test_the_operators_key_can_be_made_with_the_first_one_only(keys: Keys):
    first = keys.told("create", "fleet", "--role", "read,write", "--operator")
    assert first["operator"]["roles"] == ["operator"]
    assert parse(first["operator"]["key"]) is not None
    assert "operator" not in keys.told("create", "more", "--role", "read", "--operator")
    assert len(keys.told("list")["keys"]) == 3


def test_without_a_terminal_nothing_is_asked_and_the_missing_operator_is_told(keys: Keys):
    done = keys.run("create", "fleet", "--role", "read")
    assert done.exit_code == 0
    assert "there is no operator key yet" in done.stderr
    assert len(keys.told("list")["keys"]) == 1


def test_at_a_terminal_the_first_key_is_made_after_a_yes_and_the_operators_with_it(keys: Keys):
    create = ("keys", "create", "fleet", "--role", "read,write")
    code, shown = at_terminal(keys.variables, *create, answers={"Create it?": "n\n"})
    assert (code, "every request needs a key" in shown, "no key was created" in shown) == (1, True, True)
    assert keys.run("list").exit_code == 1
    code, shown = at_terminal(
        keys.variables, *create, answers={"Create it?": "y\n", "Also create an operator key": "y\n"}
    )
    assert code == 0, shown
    assert [key["roles"] for key in keys.told("list")["keys"]] == [["read", "write"], ["operator"]]
    code, shown = at_terminal(keys.variables, *create, answers={})
    assert (code, "Create it?" in shown) == (0, False)


def test_a_key_is_stored_when_it_is_made_and_when_it_is_replaced(keys: Keys, tmp_path: Path):
    stored = tmp_path / ".config/mnemolog/keys/127.0.0.1_3111"
    made = keys.told("create", "hooks", "--role", "read,write", "--store")
    assert (made["stored"], stored.read_text().strip()) == (str(stored), made["key"])
    rotated = keys.told("rotate", made["id"], "--store")
    assert stored.read_text().strip() == rotated["key"]
    assert keys.told("create", "another", "--role", "read")["stored"] is None
    assert stored.read_text().strip() == rotated["key"]


def test_a_key_from_elsewhere_is_stored_and_a_mistyped_one_is_not(keys: Keys, tmp_path: Path):
    key = keys.told("create", "hooks", "--role", "read,write")["key"]
    assert keys.run("store", stdin=f"{key[:-1]}\n").exit_code == 1
    assert not (tmp_path / ".config").exists()
    done = keys.run("store", "--url", "http://10.0.0.7:4000", stdin=f"{key}\n")
    assert done.exit_code == 0
    assert (tmp_path / ".config/mnemolog/keys/10.0.0.7_4000").read_text().strip() == key
    assert key not in done.output


def test_a_key_for_the_server_is_for_no_project(keys: Keys):
    assert keys.run("create", "x", "--role", "operator", "--project", "shop").exit_code == 1
    assert keys.told("create", "x", "--role", "operator,metrics")["roles"] == ["metrics", "operator"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "0123456789AB"),
        ("revoke", "0123456789AB"),
        ("list",),
        ("create", "fleet", "--role", "owner"),
        ("create", "fleet", "--role", "admin", "--agent", "ada"),
        ("create", "fleet", "--role", "read", "--days", "0"),
    ],
)
def test_what_cannot_be_done_exits_1(keys: Keys, arguments: tuple[str, ...]):
    assert keys.run(*arguments).exit_code == 1
