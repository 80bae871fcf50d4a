"""`mnemolog keys` on a real server."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from api.access.token import parse
from api.cli.main import application
from ingest.connections import Client
from ingest.valkey import EmbeddedValkey


class Keys:
    """The command, on the log's server."""

    def __init__(self, url: str) -> None:
        self._environment = {"REDIS_URL": url, "MNEMOLOG_TENANT": "default"}

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(application(), ["keys", *arguments], env=self._environment)

    def told(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def keys(redis: Client, valkey: EmbeddedValkey) -> Keys:
    return Keys(valkey.url)


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
    assert [one["id"] for one in keys.told("list")["keys"]] == [new["id"]]
    assert {one["id"] for one in keys.told("list", "--all")["keys"]} == {old["id"], new["id"]}


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
