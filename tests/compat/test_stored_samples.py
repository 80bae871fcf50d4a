"""Every version of every event ever written stays readable.

`data/<type>/v<N>.json` holds one stored event of each version as readable JSON; times are ISO text, which becomes a
msgpack timestamp before it is decoded, as it was when it was stored. Samples are added, never edited: when a version
gets another field, `v<N>.<M>.json` is one more sample of it, and the last of them sets every field.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.events.envelope import EventData, Recorded
from ingest.log.position import Position
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.registry import EVENT_TYPES, decode
from ingest.nouns.slot import SlotSet

SAMPLES = sorted((Path(__file__).parent / "data").glob("*/v*.json"))
TIMES = ("occurred_at", "forget_after", "subject_occurred_at", "valid_until")
HERE = Position(1_769_860_800_000, 7)


def sample_id(sample: Path) -> str:
    return f"{sample.parent.name} {sample.stem}"


def version_of(sample: Path) -> int:
    """The version that a sample is of: `v2.1.json` is another one of version 2."""
    return int(sample.stem.removeprefix("v").partition(".")[0])


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
    assert {f"{sample.parent.name} v{version_of(sample)}" for sample in SAMPLES} == expected


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_a_stored_event_is_read_as_the_newest_version(sample: Path):
    event, raw = read(sample), stored(sample)
    assert type(event.data) is EVENT_TYPES[raw["type"]]
    assert (event.position, event.envelope.type, raw["version"]) == (HERE, sample.parent.name, version_of(sample))
    assert (event.envelope.event_id, event.envelope.tenant) == (raw["event_id"], raw["tenant"])
    assert event.envelope.occurred_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_every_field_of_a_stored_event_is_kept(sample: Path):
    """Fields that an upcaster turned into others aside: what those must become is stated per upcaster below."""
    event, raw = read(sample), stored(sample)
    found = msgspec.structs.asdict(event.data)
    known = raw["data"].keys() - {"ttl_days"}
    builtins = msgspec.to_builtins({name: found[name] for name in known}, builtin_types=(datetime,))
    assert builtins == {name: raw["data"][name] for name in known}


@pytest.mark.parametrize("cls", EVENT_TYPES.values(), ids=EVENT_TYPES.keys())
def test_the_last_sample_of_the_newest_version_sets_every_field(cls: type[EventData]):
    """Else a field could be dropped and no sample would tell."""
    newest = [sample for sample in SAMPLES if sample.parent.name == cls.TYPE and version_of(sample) == cls.VERSION]
    assert stored(max(newest, key=lambda sample: sample.stem))["data"].keys() == set(cls.__struct_fields__)


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


def test_the_first_slots_said_all_of_themselves_every_time():
    """slot.set version 1: what was left out was a default; in version 2 it is "as it was"."""
    raw = stored(Path(__file__).parent / "data/slot.set/v1.json")
    assert decode(msgspec.msgpack.encode(raw), HERE).data == SlotSet(
        label="notes", content="a", scope="global", size_limit=500, description="scratch", pinned=False
    )
    raw["data"] = {"label": "notes", "content": "a"}
    assert decode(msgspec.msgpack.encode(raw), HERE).data == SlotSet(
        label="notes", content="a", size_limit=2000, description="", pinned=True
    )
