"""A worker of a later release: it knows one more type of event, `dream.dreamt`, whose fold keeps it as an observation.

Run as a process, with a worker's environment: `python tests/support/newer_worker.py`.
"""

import asyncio
import os
from typing import Any, ClassVar, cast

import msgspec

import ingest.nouns.registry as registry
from ingest.events.envelope import EventData, Recorded
from ingest.nouns.observation import ObservationRecorded
from ingest.platform.settings import from_environment
from projections.nouns.batch import RULES, FoldBatch, folds


class DreamDreamt(EventData, frozen=True, kw_only=True):
    """Somebody dreamt of something."""

    TYPE: ClassVar[str] = "dream.dreamt"
    VERSION: ClassVar[int] = 1

    of: str


def _apply(batch: FoldBatch, event: Recorded, data: DreamDreamt) -> None:
    observed = ObservationRecorded(content=f"dreamt of {data.of}")
    RULES[ObservationRecorded].apply(batch, event._replace(data=observed), observed)


def _about(event: Recorded, data: DreamDreamt) -> list[str]:
    observed = ObservationRecorded(content=f"dreamt of {data.of}")
    return RULES[ObservationRecorded].about(event._replace(data=observed), observed)


def _reads(event: Recorded, data: DreamDreamt) -> set[str]:
    observed = ObservationRecorded(content=f"dreamt of {data.of}")
    return set(RULES[ObservationRecorded].reads(event._replace(data=observed), observed))


def learn() -> None:
    """Let this process know the type."""
    cast(Any, registry).EVENT_TYPES[DreamDreamt.TYPE] = DreamDreamt
    cast(Any, registry)._decode_data[DreamDreamt.TYPE] = msgspec.msgpack.Decoder(DreamDreamt).decode
    folds(cast(Any, DreamDreamt), about=_about, reads=_reads)(_apply)


if __name__ == "__main__":
    from workers.main import main

    learn()
    asyncio.run(main(from_environment(os.environ)))
