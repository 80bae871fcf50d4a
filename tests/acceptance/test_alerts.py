"""The alert rules, evaluated on what a real server tells of itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Server, running
from tests.docs.test_monitoring import RULES, documented
from tests.support.promql import NeedsHistory, Vector, evaluated, scraped
from tests.support.waiting import wait_until


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
