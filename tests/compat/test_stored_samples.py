"""Every version of every event ever written stays readable.

`data/<type>/v<N>.json` holds one stored event of each version as readable JSON, every field set; times are ISO text,
which becomes a msgpack timestamp before it is decoded, as it was when it was stored. Samples are added, never edited.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.events.envelope import Recorded, decode
from ingest.events.memory import MemoryRecorded
from ingest.events.registry import EVENT_TYPES
from ingest.log.position import Position

SAMPLES = sorted((Path(__file__).parent / "data").glob("*/v*.json"))
TIMES = ("occurred_at", "forget_after", "subject_occurred_at")
HERE = Position(1_769_860_800_000, 7)


def sample_id(sample: Path) -> str:
    return f"{sample.parent.name} {sample.stem}"


def stored(sample: Path) -> dict[str, Any]:
    """The sample with its times as times."""
    return json.loads(sample.read_text(), object_hook=_with_times)


def read(sample: Path) -> Recorded:
    """The sample as this release reads it."""
    return decode(msgspec.msgpack.encode(stored(sample)), HERE)


def _with_times(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: datetime.fromisoformat(value) if name in TIMES else value for name, value in fields.items()}


def test_every_registered_version_has_a_sample():
    expected = {f"{name} v{version}" for name, cls in EVENT_TYPES.items() for version in range(1, cls.VERSION + 1)}
    assert {sample_id(sample) for sample in SAMPLES} == expected


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_a_stored_event_is_read_as_the_newest_version(sample: Path):
    event, raw = read(sample), stored(sample)
    assert type(event.data) is EVENT_TYPES[raw["type"]]
    assert (event.position, event.envelope.type, f"v{raw['version']}") == (HERE, sample.parent.name, sample.stem)
    assert (event.envelope.event_id, event.envelope.tenant) == (raw["event_id"], raw["tenant"])
    assert event.envelope.occurred_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_every_field_of_a_stored_event_is_kept(sample: Path):
    """Fields that an upcaster turned into others aside: what those must become is stated per upcaster below."""
    event, raw = read(sample), stored(sample)
    found = msgspec.structs.asdict(event.data)
    known = raw["data"].keys() - {"ttl_days"}
    assert {name: found[name] for name in known} == {name: raw["data"][name] for name in known}


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_a_sample_sets_every_field_of_its_version(sample: Path):
    """Else a field could be dropped and no sample would tell."""
    raw = stored(sample)
    cls = EVENT_TYPES[raw["type"]]
    if raw["version"] == cls.VERSION:
        assert raw["data"].keys() == set(cls.__struct_fields__)


def test_the_first_memories_had_days_to_live():
    """memory.recorded version 1: `ttl_days` counts from when the memory says it happened."""
    data = read(Path(__file__).parent / "data/memory.recorded/v1.json").data
    assert isinstance(data, MemoryRecorded)
    assert data.forget_after == datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert data == read(Path(__file__).parent / "data/memory.recorded/v2.json").data


def test_a_first_memory_without_days_to_live_is_kept_for_ever():
    raw = stored(Path(__file__).parent / "data/memory.recorded/v1.json")
    del raw["data"]["ttl_days"]
    data = decode(msgspec.msgpack.encode(raw), HERE).data
    assert isinstance(data, MemoryRecorded)
    assert data.forget_after is None
