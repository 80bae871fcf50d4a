"""What a viewer is sent: frames of an observation, and no more than its share of them."""

import asyncio
import json
from typing import Any

import pytest
from factories import NOW

from api.dialects.agentmemory.pages import MAX_RAW_BYTES, MAX_WAITING_CHARS, Viewer, frames
from ingest.ids import DocumentId
from projections.nouns.observation import Observation


def observation(**data: Any) -> Observation:
    return Observation(
        id=DocumentId("obs_1"),
        event_id="e",
        tenant="t",
        session_id="s1",
        session=DocumentId("ses_1"),
        kind="file_edit",
        data={"tool_name": "Edit", **data},
        title="Edit",
        narrative="short",
        occurred_at=NOW,
        recorded_at=NOW,
        position="1-0",
    )


def test_an_observation_has_two_frames_under_one_id():
    raw, compressed = map(json.loads, frames(observation(tool_output="ok")))
    assert (raw["type"], compressed["type"]) == ("raw_observation", "compressed_observation")
    assert raw["data"]["observation"]["id"] == compressed["data"]["observation"]["id"] == "obs_1"
    assert raw["data"]["observation"]["toolOutput"] == "ok"
    assert "title" not in raw["data"]["observation"]
    assert compressed["data"]["observation"]["narrative"] == "short"
    assert not {"raw", "toolOutput", "toolInput", "userPrompt"} & compressed["data"]["observation"].keys()


def test_a_frame_that_is_too_big_says_that_something_is_left_out():
    raw, compressed = frames(observation(tool_output="x" * MAX_RAW_BYTES))
    assert json.loads(raw)["data"]["observation"]["truncated"] is True
    assert len(raw) + len(compressed) < 2_000


async def test_a_viewer_is_sent_what_it_was_offered_in_order():
    viewer = Viewer()
    waiting = asyncio.create_task(viewer.next())
    await asyncio.sleep(0)
    for frame in ("one", "two"):
        viewer.offer(frame)
    assert [await waiting, await viewer.next()] == ["one", "two"]
    assert not viewer.too_slow.is_set()


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_viewer_that_does_not_take_its_share_is_behind(taken: int):
    viewer, half = Viewer(), "x" * (MAX_WAITING_CHARS // 2)
    for _ in range(2):
        viewer.offer(half)
    for _ in range(taken):
        await viewer.next()
    viewer.offer("one more")
    assert viewer.too_slow.is_set() == (taken == 0)
