"""Three requests: an agent observes, remembers, and at once recalls what it said.

    python examples/quickstart.py        (needs a running server: `mnemolog up`)

The address is taken from MNEMOLOG_URL, the key from MNEMOLOG_KEY.
"""

import os
from typing import Any

import httpx

URL = os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111")
PROJECT, AGENT = "quickstart", "ada"


def write(client: httpx.Client, path: str, command: dict[str, Any]) -> str:
    """Send one command; returns the position that reads can wait for."""
    answer = client.post(path, json={"project": PROJECT, **command})
    answer.raise_for_status()
    accepted = answer.json()
    print(f"{'known already' if accepted['duplicate'] else 'stored'}: {accepted['id']} at {accepted['position']}")
    return accepted["position"]


def main() -> None:
    """Observe, remember, recall."""
    headers = {"X-Agent-Id": AGENT}
    if key := os.environ.get("MNEMOLOG_KEY") or os.environ.get("MNEMOLOG_SECRET"):
        headers["Authorization"] = f"Bearer {key}"
    with httpx.Client(base_url=URL, headers=headers, timeout=10) as client:
        # An event id of one's own makes a retry harmless: run this twice and nothing is stored twice.
        positions = [
            write(
                client,
                "/v1/observations",
                {"event_id": "quickstart-1", "session_id": "monday", "content": "The release build failed on ARM."},
            ),
            write(
                client,
                "/v1/memories",
                {
                    "event_id": "quickstart-2",
                    "content": "We release on Tuesdays, never on Fridays.",
                    "tags": ["release"],
                },
            ),
        ]
        # `after` makes the recall wait until both writes can be found; positions join with commas.
        asked = {"query": "when do we release?", "project": PROJECT, "limit": 3, "after": ",".join(positions)}
        answer = client.post("/v1/recall", json=asked)
        answer.raise_for_status()
        for result in answer.json()["results"]:
            print(f"{result['score']:.2f}  {result['kind']:<11}  {result['content']}")


if __name__ == "__main__":
    try:
        main()
    except httpx.ConnectError as error:
        raise SystemExit(f"{URL}: {error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
