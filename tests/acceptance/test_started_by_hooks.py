"""A hook that was installed with `--start`, for a server that is down: a real hook starts a real server."""

import asyncio
import json
import os
import re
import shlex
import signal
from pathlib import Path

import httpx
from commands import ROOT, environment, run
from ports import free_port
from waiting import wait_until

from api.agents.spools import OUTPUT
from tests.acceptance.running import PATIENT_READ_S
from tests.acceptance.test_agent_hooks import Agent
from tests.acceptance.test_up import UP_S, is_running

PROMPTS = 4


async def test_hooks_start_a_server_that_is_down_once_and_it_stores_their_events(
    tmp_path: Path, short_path: Path, cache_dir: Path
):
    port = free_port()
    url, spool = f"http://127.0.0.1:{port}", tmp_path / "spool"
    variables = {
        "HOME": str(short_path),
        "PYTHONPATH": str(ROOT / "tools/package"),  # so that the program `mnemolog` is that of this source tree
        "MNEMOLOG_DATA_DIR": str(short_path / "data"),
        "MNEMOLOG_CACHE_DIR": str(cache_dir),
        "MNEMOLOG_SPOOL": str(spool),
        "MNEMOLOG_EMBEDDER": "none",
        "MNEMOLOG_PARTITIONS": "2",
        "MNEMOLOG_READ_WAIT": str(PATIENT_READ_S),
    }
    installed = run(variables, "install", "claude-code", "--start", "--no-rules", "--yes", "--url", url)
    assert installed.returncode == 0, installed.stderr
    hooks = json.loads((short_path / ".claude/settings.json").read_text())["hooks"]
    command = shlex.split(hooks["UserPromptSubmit"][0]["hooks"][0]["command"])
    # of a project of the user, which has a Redis of its own that is not for mnemolog
    environ = {**environment(**variables, MNEMOLOG_PROJECT="shop"), "REDIS_URL": "redis://127.0.0.1:1"}
    agent = Agent("s-1", tmp_path, environ, command)
    output = spool / OUTPUT
    try:
        begun = await asyncio.to_thread(agent.hook, "SessionStart", source="startup")
        answer = json.loads(begun.stdout)
        assert f"A hook started it (output: {output})" in answer["systemMessage"]
        assert answer["hookSpecificOutput"]["additionalContext"] == answer["systemMessage"]
        prompts = [f"Prompt number {number}" for number in range(PROMPTS)]
        await asyncio.gather(*(asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt=text) for text in prompts))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:

            async def is_recorded() -> bool:
                try:
                    read = await client.get("/v1/sessions/s-1/observations", params={"project": "shop"})
                except httpx.TransportError:
                    return False
                items = read.json()["items"] if read.status_code == 200 else ()
                return sorted(item["data"]["prompt"] for item in items) == prompts

            await wait_until(is_recorded, UP_S)
        assert agent.spooled() == []
        assert output.read_text().count("mnemolog is up") == 1
    finally:
        (process,) = map(int, re.findall(r"as process (\d+)", output.read_text()))
        os.kill(process, signal.SIGTERM)
        await wait_until(lambda: not is_running(process), UP_S)
