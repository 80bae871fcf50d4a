import os
import threading
from concurrent.futures import ThreadPoolExecutor

from ingest.platform.processes import LOWEST_NICENESS, give_way


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_thread_that_gives_way_has_the_lowest_priority():
    before = niceness()
    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        assert pool.submit(niceness).result() == LOWEST_NICENESS
    assert niceness() == before
