"""A log that is appended to, sealed, trimmed, erased from and rewritten in any order reads like a plain list.

Forwards and backwards, in pages of any size, by the process that did it and by one that knows nothing yet. Once what
was erased is rewritten, no file of the archive has it, and the count of erased entries never loses one.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from archiving import erase, pretend_projected, seal_next
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.ids import EventId
from ingest.log.archive.archive import Archive
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import Sealing
from ingest.log.archived import count_erased
from ingest.log.event_log import Entry, Stored
from ingest.log.position import START
from ingest.log.store import store_of
from ingest.platform.connections import Client

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12)),
        st.tuples(st.just("seal"), st.integers(1, 9)),
        st.tuples(st.sampled_from(["let go", "rewrite", "start again"]), st.just(0)),
        st.tuples(st.sampled_from(["erase", "read", "read back"]), st.integers(0, 1000)),
    ),
    min_size=4,
    max_size=24,
)


class DocumentLocation(NamedTuple):
    """Where archives of this test go."""

    folder: Path

    def payloads(self) -> Iterator[bytes]:
        """Everything that any file of any archive says, unpacked."""
        for path in self.folder.rglob("*"):
            if path.suffix == ".zst":
                yield zstandard.ZstdDecompressor().decompress(path.read_bytes())
            elif path.is_file():
                yield path.read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> DocumentLocation:
    return DocumentLocation(tmp_path / "archive")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
async def test_the_log_reads_like_a_list(redis: Client, place: DocumentLocation, steps: list[tuple[str, int]]):
    await redis.flushall()
    shutil.rmtree(place.folder, ignore_errors=True)
    log = await opened(redis, place)
    await pretend_projected(redis, 0)
    model: list[Stored] = []
    erased: list[bytes] = []
    for step, number in steps:
        match step:
            case "append":
                names = [f"said-{len(model) + n}." for n in range(number)]
                answers = await log.append({0: [Entry(EventId(name), name.encode()) for name in names]})
                model += (Stored(item.position, name.encode()) for item, name in zip(answers[0], names, strict=True))
            case "seal":
                await seal_next(redis, log, 0, number)
            case "let go":
                await Sealing(redis, log).let_go(0)
            case "rewrite":
                await Sealing(redis, log).rewrite(0)
                results = b"".join(place.payloads())
                assert not [text for text in erased if text in results]
            case "start again":
                log = await opened(redis, place)
            case "erase" if model and model[number % len(model)].payload.startswith(b"said"):
                position, payload = model[number % len(model)]
                await erase(redis, 0, position, b"stub")
                model[number % len(model)] = Stored(position, b"stub")
                erased.append(payload)
            case "read":
                start, limit = number % (len(model) + 1), 1 + number % 11
                after = model[start - 1].position if start else START
                assert await log.read(0, after, limit) == model[start : start + limit]
            case "read back":
                end, limit = number % (len(model) + 1), 1 + number % 11
                before = model[end].position if end < len(model) else None
                assert await log.read_back(0, before, limit) == model[max(0, end - limit) : end][::-1]
            case _:
                pass
        assert await count_erased(redis, 1) == len(erased)
    await assert_equal(log, model)
    await assert_equal(await opened(redis, place), model)


async def opened(redis: Client, place: DocumentLocation) -> ArchivedLog:
    """The log as a process that starts now sees it."""
    log = ArchivedLog(redis, 1, Archive(redis, store_of(str(place.folder))))
    await log.create_or_check()
    return log


async def assert_equal(log: ArchivedLog, model: list[Stored]) -> None:
    """All of it, at once and from any place."""
    assert await log.read(0, START, 10_000) == model
    assert await log.read_back(0, None, 10_000) == model[::-1]
    assert await log.head(0) == (model[-1].position if model else START)
    for position, _ in model:
        read: Any = await log.read(0, position, 3)
        assert read == [item for item in model if item.position > position][:3]
        back = await log.read_back(0, position, 3)
        assert back == [item for item in model if item.position < position][-3:][::-1]
