"""Dead letters as an operator meets them: events of a later release, a worker that is upgraded, redrive and discard."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.parking import LETTERS, PARTITIONS, dream, home, newer_worker, parked
from tests.acceptance.running import Server, fault, running
from tests.support.commands import run


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """The server of these tests: the worker of a later release would apply what is parked elsewhere."""
    with running(cache_dir, embedder="none", partitions=PARTITIONS) as started:
        yield started


def mnemolog(server: Server, *words: str) -> tuple[int, Any]:
    """Exit code and JSON of a command."""
    variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": server.secret}
    done = run(variables, "dead-letters", *words, "--json")
    return done.returncode, json.loads(done.stdout)


async def metrics(client: httpx.AsyncClient) -> Counter[str]:
    """The samples that /metrics has of dead letters."""
    lines = (await client.get("/metrics")).text.splitlines()
    samples = [line.rpartition(" ") for line in lines if line.startswith("mnemolog_dead_letter")]
    return Counter({sample: int(float(value)) for sample, _, value in samples})


async def test_what_a_later_release_can_apply_is_redriven_after_the_upgrade(server: Server, project: str):
    async with server.client("eve") as client:
        before = (await client.get(LETTERS)).json()["counts"]
        places = await parked(server, client, project, dream("sheep", project), dream("rain", project), b"\xc1")
        code, page = mnemolog(server, "list", "--code", "unknown_event_type")
        assert (code, [one["position"] for one in page["dead_letters"]]) == (0, places[:2])
        code, one = mnemolog(server, "show", places[0])
        assert (code, one["type"], one["event"]["data"]) == (0, "dream.dreamt", {"of": "sheep"})
        code, told = mnemolog(server, "redrive", places[0])
        assert (code, [left["attempts"] for left in told["left"]]) == (1, [2]), "this release cannot"
        with newer_worker(server):
            code, told = mnemolog(server, "redrive", "--code", "unknown_event_type", "--wait", "50")
            assert (code, told) == (0, {"requested": places[:2], "left": []})
        answer = await client.get("/v1/sessions/s1/observations", params={"project": project})
        assert [one["content"] for one in answer.json()["items"]] == ["dreamt of sheep", "dreamt of rain"]
        answer = (await client.get(LETTERS)).json()
        assert {one["position"] for one in answer["dead_letters"]} & {*places} == {places[2]}
        changes = {outcome: count - before[outcome] for outcome, count in answer["counts"].items()}
        assert changes == {"parked": 3, "redriven": 2, "redrive_failed": 1, "rebuilt": 0, "discarded": 0}


async def test_one_is_discarded_and_the_metrics_say_so(server: Server, project: str):
    async with server.client("eve") as client:
        before = await metrics(client)
        (first, second) = await parked(server, client, project, b"\xc1 one", b"\xc1 two")
        code, told = mnemolog(server, "discard", first, "--reason", "not ours", "--agent", "eve", "--erase")
        assert (code, told) == (0, {"discarded": [first]})
        (one,) = (await client.get(LETTERS, params={"state": "discarded"})).json()["dead_letters"]
        assert one["discarded"]["agent_id"] == "eve"
        assert one["discarded"]["reason"] == "not ours"
        assert one["event"]["type"] == "event.erased"
        assert await metrics(client) - before == {
            'mnemolog_dead_letter_changes_total{outcome="discarded"}': 1,
            'mnemolog_dead_letter_changes_total{outcome="parked"}': 2,
            f'mnemolog_dead_letters{{partition="{home(project)}"}}': 1,
        }
        assert mnemolog(server, "show", first)[1]["state"] == "discarded"
        assert mnemolog(server, "show", second)[1]["state"] == "parked"


async def test_what_is_asked_wrongly_is_refused(server: Server):
    async with server.client() as client:
        assert (await client.get(f"{LETTERS}/0:1-1")).status_code == 404
        for place in ("x", "9:1-1", "0:x"):
            answer = await client.get(f"{LETTERS}/{place}")
            assert (answer.status_code, fault(answer)["field"]) == (422, "position")
        everything = await client.post(f"{LETTERS}/redrive", json={})
        assert fault(everything)["detail"] == "name a position, a code or a type"
        without_reason = await client.post(f"{LETTERS}/discard", json={"code": "x"})
        assert without_reason.status_code == 422
        assert (await client.get(LETTERS, params={"limit": 1000})).status_code == 422
    assert mnemolog(server, "show", "0:1-1")[0] == 1
    assert mnemolog(server, "redrive")[0] == 2
    assert mnemolog(server, "discard", "0:1-1")[0] == 2
