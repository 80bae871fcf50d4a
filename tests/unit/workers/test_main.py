"""What a worker does if a part of it cannot run: it says so, and the rest goes on."""

import logging
from typing import Any, cast

import pytest

import workers.main
from ingest.errors import NotFound
from workers.main import _lower_priority, _seal_and_trim  # pyright: ignore[reportPrivateUsage]


class BrokenArchive:
    """An archive whose folder is another log's."""

    async def run(self) -> None:
        raise NotFound("the archive belongs to another log")


async def test_an_unusable_archive_is_reported_and_does_not_end_the_job(caplog: pytest.LogCaptureFixture):
    await _seal_and_trim(cast(Any, BrokenArchive()))
    assert caplog.messages == ["archiving is disabled: the archive belongs to another log"]


def test_a_machine_that_refuses_a_lower_priority_embeds_at_the_normal_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def refuse() -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(workers.main, "give_way", refuse)
    with caplog.at_level(logging.INFO):
        _lower_priority()
    assert caplog.messages == ["embedding runs at normal priority: not permitted"]
