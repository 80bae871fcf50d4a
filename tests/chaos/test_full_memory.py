"""At the limit of memory nothing that was accepted is parked, and forgetting goes through. See full_memory."""

from pathlib import Path

import pytest

from tests.chaos.full_memory import Run, Worker, play


@pytest.mark.parametrize(
    ("ceiling", "worker"), [("85%", "paused"), pytest.param("0", "running", marks=pytest.mark.nightly)]
)
async def test_what_was_accepted_is_projected_and_forgetting_goes_through_at_maxmemory(
    tmp_path: Path, ceiling: str, worker: Worker
):
    run = await play(Run(seed=7, ceiling=ceiling, worker=worker), tmp_path)
    assert run.faults == []
    assert run.refusals
    assert run.acknowledged
