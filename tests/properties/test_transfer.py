"""Random histories, exported and imported: the log and the documents are the same."""

import asyncio
from datetime import timedelta

from factories import ManualClock
from histories import History, histories
from hypothesis import given

from ingest.events.envelope import Event, encode
from ingest.ids import EventId
from ingest.log.event_log import Entry
from ingest.platform.clock import from_ms
from tests.conformance.test_transfer import Folded, exported, fold, imported
from tests.support.memory_log import MemoryLog


async def logged(history: History, clock: ManualClock) -> MemoryLog:
    """The history's log, as its live projection left it."""
    log = MemoryLog(1, clock.ms)
    for number, event in enumerate(history.events):
        clock.now = from_ms(event.position.ms)
        entry = Entry(EventId(str(number)), encode(Event(event.envelope, event.data)))
        ((appended,),) = (await log.append({0: [entry]})).values()
        assert appended.position == event.position
    log.erase(0, {position: encode(stub) for position, stub in history.live.erased.items()})
    return log


@given(histories())
def test_an_export_that_is_imported_is_the_same_log_and_the_same_documents(history: History):
    """Nothing of the imported log is erased when it is projected: what is void or a repeat is a stub already."""

    async def check() -> None:
        clock = ManualClock()
        body = await exported(await logged(history, clock))
        clock.advance(timedelta(days=400))
        for partitions in (1, 5):
            target = MemoryLog(partitions, clock.ms)
            report = await imported(target, body)
            assert (report.duplicates, report.rejected, report.complete) == (0, [], True)
            again = await exported(target)
            assert again == body if partitions == 1 else sorted(again.splitlines()) == sorted(body.splitlines())
            results = [await fold(target, partition) for partition in range(partitions)]
            assert [store.erased for store in results] == [{}] * partitions
            assert Folded(results).documents == Folded([history.live]).documents

    asyncio.run(check())
