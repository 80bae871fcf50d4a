"""Writing and asking over HTTP as the tests of the native API do: what should succeed must.

A 503 is asked again as clients are told to: other tests fill the same server, and projecting is then behind.
"""

import asyncio
from typing import Any

import httpx
from waiting import wait_until

from tests.acceptance.running import fault


async def repeated(client: httpx.AsyncClient, method: str, path: str, **sent: Any) -> httpx.Response:
    """The answer as a client gets it that asks again, as it is told to, while the projections are behind."""
    answer = await client.request(method, path, **sent)
    for _ in range(20):
        if answer.status_code != 503:
            break
        await asyncio.sleep(0.25)
        answer = await client.request(method, path, **sent)
    return answer


async def write(client: httpx.AsyncClient, path: str, **command: Any) -> dict[str, Any]:
    """The acknowledgement of one command."""
    answer = await repeated(client, "POST", path, json=command)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def run_job(client: httpx.AsyncClient, path: str, **order: Any) -> dict[str, Any]:
    """The result of a job that a request starts."""
    job = await write(client, path, **order)

    async def ended() -> bool:
        nonlocal job
        job = await read(client, f"/v1/jobs/{job['id']}")
        return job["status"] not in ("queued", "running")

    await wait_until(ended, 60)
    assert job["status"] == "done", job["error"]
    return job["result"]


async def read(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    """The good answer to a GET."""
    answer = await repeated(client, "GET", path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def recall(client: httpx.AsyncClient, query: str, **asked: Any) -> dict[str, Any]:
    """The good answer to a recall; unless they are asked for without a limit of confidence, and with all repeats.

    Confidence weighs words by their rarity in the whole index, which other tests fill at the same time.
    """
    everything = {"min_confidence": 0.0, "fold": False}
    answer = await repeated(client, "POST", "/v1/recall", json={"query": query, **everything, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def all_pages(
    client: httpx.AsyncClient, path: str, *, cursor: str | None = None, **query: Any
) -> list[dict[str, Any]]:
    """Everything a listing has (behind `cursor`), page by page."""
    found: list[dict[str, Any]] = []
    for _ in range(100):
        page = await read(client, path, **query, **({} if cursor is None else {"cursor": cursor}))
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


async def change(client: httpx.AsyncClient, path: str, **command: Any) -> dict[str, Any]:
    """The acknowledgement of a PATCH."""
    answer = await repeated(client, "PATCH", path, json=command)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def remove(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    """The acknowledgement of a DELETE."""
    answer = await repeated(client, "DELETE", path, params=query)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def ask(client: httpx.AsyncClient, path: str, **asked: Any) -> dict[str, Any]:
    """The good answer to a question that is posted."""
    answer = await repeated(client, "POST", path, json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(
    client: httpx.AsyncClient, method: str, path: str, json: Any = None, **query: Any
) -> tuple[int, str, str | None]:
    """Status, code and field of a refusal."""
    answer = await client.request(method, path, json=json, params=query)
    assert answer.status_code >= 400, answer.text
    return answer.status_code, fault(answer)["code"], fault(answer).get("field")


def names(page: dict[str, Any], field: str) -> list[Any]:
    """One field of every item of a page."""
    return [one[field] for one in page["items"]]
