"""What operators watch beside traces: alerts on real metrics, and probes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from promql import NeedsHistory, Vector, evaluated, scraped
from waiting import wait_until

from tests.acceptance.running import Server, running
from tests.docs.test_monitoring import RULES, documented
from tests.support import helm


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """A server whose worker is stopped."""
    with running(cache_dir, embedder="none", partitions=2) as started:
        yield started


async def scrape(client: httpx.AsyncClient) -> dict[str, Vector]:
    """What Prometheus would get now."""
    return scraped((await client.get("/metrics")).raise_for_status().text)


def firing(scrape: dict[str, Vector]) -> set[str]:
    """The alerts that fire, whatever they wait for; but for what is told by a history, and the disk of this machine."""
    found: set[str] = set()
    for rule in RULES:
        try:
            if evaluated(rule["expr"], scrape):
                found.add(rule["alert"])
        except NeedsHistory:
            continue
    return found - {"MnemologDiskLow"}


async def test_the_metrics_have_the_labels_that_the_page_says(server: Server):
    async with server.client() as client:
        await client.get("/v1/memories")
        told = await scrape(client)
    labels = {name: {key for of in vector for key, _ in of} for name, vector in told.items()}
    known: dict[str, Any] = documented()
    assert {name for name in labels if name in known and labels[name] != known[name]} == set()
    assert {"mnemolog_workers", "mnemolog_http_requests_total", "mnemolog_write_pressure"} <= labels.keys()


async def test_alerts_fire_when_the_worker_is_gone_and_not_before(server: Server):
    async with server.client() as client:
        assert firing(await scrape(client)) == set()
        server.supervisor.worker.stop()

        async def noticed() -> bool:
            return "MnemologNoWorker" in firing(await scrape(client))

        await wait_until(noticed)
        assert firing(await scrape(client)) == {"MnemologNoWorker"}


def probe(server: Server, secret: str) -> int:
    """The exit status of the command, in an API pod of this server."""
    if helm.program() is None:
        pytest.skip(helm.MISSING)
    name = ("Deployment", "mnemolog-api")
    (deployment,) = (manifest for manifest in helm.render() if (manifest["kind"], manifest["metadata"]["name"]) == name)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    program, option, code = container["readinessProbe"]["exec"]["command"]
    assert program == "python"
    here = code.replace("http://127.0.0.1:3111", server.url)
    environment = {**os.environ, "MNEMOLOG_SECRET": secret}
    return subprocess.run([sys.executable, option, here], env=environment, capture_output=True, check=False).returncode


def test_a_server_that_works_is_ready(server: Server):
    assert probe(server, server.secret) == 0


def test_a_server_that_does_not_answer_the_probe_is_not(server: Server):
    assert probe(server, "another secret") != 0
