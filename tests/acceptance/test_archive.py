"""The archive as an operator meets it: the log reads the same, and a command names what is damaged."""

from pathlib import Path

import httpx
import pytest

from tests.acceptance.test_backup import DocumentLocation, eventually, export, report, write

WORDS = [f"kettle number {n} is on the shelf" for n in range(40)]


@pytest.fixture
def place(short_path: Path, cache_dir: Path) -> DocumentLocation:
    """An installation that archives by hand only: nothing is an hour old."""
    return DocumentLocation(short_path, cache_dir, MNEMOLOG_BACKUP="", MNEMOLOG_ARCHIVE=str(short_path / "archive"))


def test_an_archived_log_answers_as_before_and_damage_is_named(place: DocumentLocation, short_path: Path):
    with place.up() as client:
        *_, last = [write(client, "/v1/observations", session_id=f"s{len(text) % 3}", content=text) for text in WORDS]
        forgotten = write(client, "/v1/memories", content="a memory that goes")
        eventually(lambda: client.get(f"/v1/memories/{forgotten['id']}").status_code == 200)
        before = export(client)
        done = report(place.run("archive", "seal", "--json"))
        assert done["trimmed"] == len(WORDS) + 1
        assert export(client) == before
        page = client.get("/v1/events", params={"limit": 1000}).json()["events"]
        assert len(page) == len(WORDS) + 1
        assert client.get("/v1/admin/projections").json()["partitions"][0]["lag"] == 0

        assert client.delete(f"/v1/memories/{forgotten['id']}").status_code == 202
        assert client.post("/v1/admin/purge").status_code == 202
        segments = short_path / "archive"
        eventually(lambda: any("segment-0000000002" in path.name for path in segments.rglob("*.zst")))
        assert client.post("/v1/admin/projections/rebuild").status_code == 202
        eventually(lambda: all(one["generation"] == 2 for one in _partitions(client)))
        asked = {"query": WORDS[7], "mode": "lexical", "after": str(last["position"])}
        found = client.post("/v1/recall", json=asked).json()["results"]
        assert WORDS[7] in [one["content"] for one in found]

    told = report(place.run("archive", "--json"))["partitions"]
    assert sum(one["entries"] for one in told) > len(WORDS)
    assert all(one["sealed"] == one["trimmed"] for one in told)
    assert "whole" in place.run("archive", "verify").stdout
    broken = next(path for path in sorted(segments.rglob("segment-*")) if path.stat().st_size > 300)
    broken.write_bytes(broken.read_bytes()[:-5])
    verified = place.run("archive", "verify")
    assert verified.returncode == 1
    assert broken.name in verified.stdout


def _partitions(client: httpx.Client) -> list[dict[str, int]]:
    return client.get("/v1/admin/projections").json()["partitions"]
