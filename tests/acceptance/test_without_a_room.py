"""The files of each room of the ring are deleted, and the rest starts, stores, recalls and stops."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from commands import command_line, environment
from ports import free_ports
from waiting import wait_until

from ingest.platform.settings import DROP_INS
from tests.acceptance.running import PATIENT_READ_S
from tests.ring.rooms import ROOT, TABLE

CORE = ("api", "clients/python/mnemolog_client", "ingest", "mcp_gateway", "projections", "workers")
PORTS = ("PORT", "AGENTD_PORT", "AGENT_MEMORY_PORT", "MEMEX_PORT", "MEMEX_MCP_PORT")


@pytest.mark.parametrize("room", TABLE["rooms"])
def test_the_rest_works_without_a_room(room: str, tmp_path: Path, short_path: Path, cache_dir: Path):
    for folder in CORE:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for path in TABLE["rooms"][room]:
        if path.endswith("/"):
            shutil.rmtree(tmp_path / path, ignore_errors=True)
        else:
            (tmp_path / path).unlink(missing_ok=True)
    ports = [str(port) for port in free_ports(len(PORTS))]
    url, log = f"http://127.0.0.1:{ports[0]}", tmp_path / "log"
    variables = environment(
        PYTHONPATH=f"{tmp_path}:{tmp_path}/clients/python",
        MNEMOLOG_DATA_DIR=str(short_path),
        MNEMOLOG_CACHE_DIR=str(cache_dir),
        MNEMOLOG_URL=url,
        MNEMOLOG_EMBEDDER="none",
        MNEMOLOG_READ_WAIT=str(PATIENT_READ_S),
        MNEMOLOG_DROP_IN=",".join(DROP_INS),
        **{f"MNEMOLOG_{name}": port for name, port in zip(PORTS, ports, strict=True)},
    )

    def mnemolog(*arguments: str) -> str:
        return subprocess.check_output(command_line(*arguments), cwd=tmp_path, env=variables, text=True)

    with log.open("wb") as output:
        process = subprocess.Popen(command_line("up"), cwd=tmp_path, env=variables, stdout=output, stderr=output)

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        return "mnemolog is up" in log.read_text()

    try:
        asyncio.run(wait_until(is_up, 90))
        assert httpx.get(f"{url}/readyz", trust_env=False).json()["degraded"] == []
        text = f"No change has touched {room}."
        written = httpx.post(f"{url}/v1/memories", json={"project": "atlas", "content": text}, trust_env=False).json()
        assert text in mnemolog("recall", "change", "--project", "atlas", "--after", written["position"])
        assert "remember" in mnemolog("--help")
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
