"""agent-memory's hooks while the log's server is away: they are answered in time, and what they report is kept."""

import asyncio
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.acceptance.running import running
from tests.contracts.agent_memory.conftest import well
from tests.support.ports import free_port
from tests.support.waiting import wait_until

PATIENT_S = 60


@pytest.mark.covers("GET /api/health", "POST /api/queue")
async def test_nothing_reported_is_lost_while_the_log_is_away(tmp_path: Path):
    port, spool = free_port(), tmp_path / "spool"
    with running(
        tmp_path, secret=None, drop_in=("agent-memory",), agent_memory_ports=(port,), agent_memory_spool=spool,
        embedder="none", partitions=2,
    ) as server:  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENT_S, trust_env=False) as api:
            await well(api)
            assert server.supervisor.valkey is not None
            assert server.supervisor.valkey.pid is not None
            os.kill(server.supervisor.valkey.pid, signal.SIGSTOP)
            away = await api.get("/api/health")
            assert away.status_code == 200
            assert away.json()["status"] == "degraded"
            assert away.json()["db"]["status"] == "error"
            assert away.json()["queue"] == {"pending": -1, "observations_total": -1}
            report = {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": "/w/shop"}
            answers = await asyncio.gather(*(api.post("/api/queue", content=json.dumps(report)) for _ in range(3)))
            assert [one.json() for one in answers] == [{"status": "queued"}] * 3
            assert len(list(spool.glob("*.json"))) == 3
            os.kill(server.supervisor.valkey.pid, signal.SIGCONT)

            async def all_there() -> bool:
                found = await api.get("/api/observations", params={"project": "shop"})
                return found.status_code == 200 and len(found.json()) == 3 and not list(spool.glob("*.json"))

            await wait_until(all_there, PATIENT_S)
