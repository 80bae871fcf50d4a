"""The first key of an open server: who may make it, and what asks for one from then on."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from commands import run
from waiting import wait_until

from api.agents import hook
from ingest.platform.settings import to_environment
from tests.acceptance.running import Server, fault, running, until_ready

HOOK = [sys.executable, "-I", "-S", str(Path(hook.__file__)), "claude-code"]
PROMPT = "Find out why the till is closed, and open it for the evening shift."
GRANTS: Sequence[dict[str, Any]] = (
    {"roles": ["read", "write", "admin"]},
    {"roles": ["operator"]},
    {"roles": ["metrics"]},
    {"roles": ["read"], "projects": ["shop"], "tenant": "elsewhere", "agents": ["ada"]},
)


class User(NamedTuple):
    """Somebody with a home folder, at the machine of an open server."""

    server: Server
    home: Path
    prompts: Counter[str]
    """How many prompts were handed to a hook before it said something, by session."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment of this user's commands and hooks; no key is in it."""
        settings = to_environment(self.server.supervisor.settings)
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "COLUMNS": "400", **settings}

    async def mnemolog(self, *arguments: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run a command."""
        return await asyncio.to_thread(run, self.environ | environ, *arguments, text=stdin)

    async def hook(self, session: str, event: str, **fields: Any) -> str:
        """What the hook prints for its host; it ends with 0 whatever happens."""
        payload = {"session_id": session, "cwd": str(self.home), "hook_event_name": event, **fields}
        done = await asyncio.to_thread(
            subprocess.run, HOOK, env=self.environ | {"MNEMOLOG_PROJECT": "shop"}, input=json.dumps(payload),
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def user(cache_dir: Path, tmp_path: Path) -> Iterator[User]:
    """The user of a server without a secret and without any key."""
    with running(cache_dir, secret=None, embedder="none", partitions=2, spool=tmp_path / "spool") as server:
        yield User(server, tmp_path, Counter())


async def closed(user: User) -> None:
    """Return when the server asks for a key."""
    async with user.server.client() as nobody:

        async def asks() -> bool:
            return (await nobody.get("/v1/memories")).status_code == 401

        await wait_until(asks)


async def test_a_local_process_makes_no_key_and_locks_nobody_out(user: User):
    """Neither while there is no key, nor in the moment in which a server has not heard of the first one."""
    pages: list[dict[str, str]] = [{}, {"Origin": user.server.url}, {"Origin": "http://localhost:8080"}]
    async with user.server.client() as nobody:

        async def refused() -> None:
            for grant in GRANTS:
                for headers in pages:
                    answer = await nobody.post("/v1/admin/keys", json={"name": "x", **grant}, headers=headers)
                    assert answer.status_code in (401, 403), answer.text
            told = [await nobody.get("/v1/admin/keys"), await nobody.post("/v1/admin/keys", content=b"no grant")]
            for name in ["0123456789AB", *made]:
                told.append(await nobody.post(f"/v1/admin/keys/{name}/rotate"))
                told.append(await nobody.delete(f"/v1/admin/keys/{name}"))
            assert {one.status_code for one in told} <= {401, 403}

        made: list[str] = []
        await refused()
        answer = await nobody.post("/v1/admin/keys", json={"name": "x", "roles": ["operator"]})
        assert fault(answer)["code"] == "forbidden"
        assert "mnemolog admin keys create" in fault(answer)["detail"]
        assert (await nobody.get("/v1/memories")).status_code == 200, "somebody is locked out"
        first = await user.mnemolog("keys", "create", "first", "--role", "operator", "--json")
        assert first.returncode == 0, first.stderr
        made.append(json.loads(first.stdout)["id"])
        await refused()
        await closed(user)
        await refused()
    async with user.server.client(secret=json.loads(first.stdout)["key"]) as operator:
        keys = (await operator.get("/v1/admin/keys")).json()["keys"]
        assert [(key["name"], key["status"]) for key in keys] == [("first", "active")]
        assert (await operator.post("/v1/admin/keys", json={"name": "second", "roles": ["read"]})).status_code == 201


async def test_making_the_first_key_says_who_needs_one_and_storing_one_makes_all_of_it_work(user: User):
    """One story of one user: each step begins where the one before it ended."""
    settings = user.home / ".claude/settings.json"
    set_up = await user.mnemolog("install", "claude-code", "--yes")
    assert set_up.returncode == 0, set_up.stderr
    assert (await user.mnemolog("remember", "the till opens at nine", "--project", "shop")).returncode == 0
    assert await user.hook("s1", "SessionStart", source="resume") == ""
    await _is_told_with_the_first_key(user, settings)
    await closed(user)
    await _is_told_by_commands_and_by_hooks_once_and_loses_nothing(user)
    await _works_again_with_a_stored_key(user)
    await _is_told_of_a_key_that_was_revoked(user)


async def _is_told_with_the_first_key(user: User, settings: Path) -> None:
    made = await user.mnemolog("keys", "create", "ops", "--role", "operator")
    for told in ("the server's first key", "401", str(settings), "claude-code", "--store", "MNEMOLOG_SECRET"):
        assert told in made.stderr
    assert made.stdout.strip().startswith("mnk_")
    second = await user.mnemolog("keys", "create", "more", "--role", "read")
    assert "first key" not in second.stderr


async def _is_told_by_commands_and_by_hooks_once_and_loses_nothing(user: User) -> None:
    asked = await user.mnemolog("recall", "when does the till open?")
    assert asked.returncode == 1
    for told in ("requires a key", "MNEMOLOG_KEY", "mnemolog admin keys store"):
        assert told in asked.stderr
    told = await _first_word(user, "s1", "UserPromptSubmit", prompt=PROMPT)
    assert told.keys() == {"systemMessage"}
    for word in ("requires a key", "mnemolog admin keys store", "MNEMOLOG_KEY", str(user.home / "spool")):
        assert word in told["systemMessage"]
    assert [await user.hook("s1", "UserPromptSubmit", prompt=PROMPT) for _ in range(3)] == ["", "", ""]
    told = await _first_word(user, "s2", "SessionStart", source="startup")
    assert "requires a key" in told["systemMessage"]


async def _first_word(user: User, session: str, event: str, **fields: Any) -> dict[str, Any]:
    """What a hook prints first; on a busy machine it may hear of no answer in the time that it has, and then spools."""
    words: list[str] = []

    async def told() -> bool:
        words.append(await user.hook(session, event, **fields))
        user.prompts[session] += event == "UserPromptSubmit"
        return bool(words[-1])

    await wait_until(told)
    return json.loads(words[-1])


async def _works_again_with_a_stored_key(user: User) -> None:
    made = await user.mnemolog("keys", "create", "hooks", "--role", "read,write", "--store", "--json")
    assert made.returncode == 0, made.stderr
    stored = json.loads(made.stdout)["stored"]
    assert os.stat(stored).st_mode & 0o777 == 0o600  # noqa: PTH116 - no pathlib in async functions
    key = json.loads(made.stdout)["key"]
    async with user.server.client(secret=key) as client:

        async def arrived() -> bool:
            found = await client.get("/v1/sessions/s1/observations", params={"project": "shop"})
            prompts = [one["data"]["prompt"] for one in found.json().get("items", [])]
            return prompts == [PROMPT] * (user.prompts["s1"] + 3)

        await wait_until(arrived)
    recalled = await user.mnemolog("recall", "when does the till open?", "--project", "shop")
    assert "the till opens at nine" in recalled.stdout
    started = await _first_word(user, "s3", "SessionStart", source="startup")
    assert PROMPT in started["hookSpecificOutput"]["additionalContext"]
    assert await user.hook("s3", "UserPromptSubmit", prompt="And on Sunday?") == ""


async def _is_told_of_a_key_that_was_revoked(user: User) -> None:
    key_id = json.loads((await user.mnemolog("keys", "list", "--json")).stdout)["keys"][-1]["id"]
    assert (await user.mnemolog("keys", "revoke", key_id)).returncode == 0

    async def refused() -> bool:
        return "wrong, expired or revoked" in (await user.mnemolog("recall", "till", "--project", "shop")).stderr

    await wait_until(refused)
    told = await _first_word(user, "s4", "SessionStart", source="startup")
    assert "wrong, expired or revoked" in told["systemMessage"]
    assert await user.hook("s4", "UserPromptSubmit", prompt="And on Monday?") == ""
    fresh = json.loads((await user.mnemolog("keys", "create", "new", "--role", "read,write", "--json")).stdout)["key"]
    mistyped = await user.mnemolog("keys", "store", stdin=fresh[:-1] + "\n")
    assert mistyped.returncode == 1
    assert (await user.mnemolog("keys", "store", stdin=f"{fresh}\n")).returncode == 0
    asked = {"Authorization": f"Bearer {fresh}"}
    async with httpx.AsyncClient(base_url=user.server.url, headers=asked, trust_env=False) as client:
        await until_ready(client)
    assert (await user.mnemolog("recall", "when does the till open?", "--project", "shop")).returncode == 0
