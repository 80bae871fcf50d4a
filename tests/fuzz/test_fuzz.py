"""A small share of `make fuzz` in every run: the doors answer what their documents say, and tools never break.

Left open: everything that a few hundred requests do not meet; `make fuzz` sends ten thousand.
"""

from collections.abc import Iterator

import pytest

from tests.fuzz.doors import Doors, all_doors
from tests.fuzz.fuzzing import Report, fuzz
from tests.fuzz.tools import fuzz_tools

EXAMPLES = 300
CALLS = 40
SEED = 1
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A server that is there for this alone: it may be filled and emptied."""
    cache = tmp_path_factory.mktemp("cache")
    with all_doors(cache) as started:
        yield started


def faults(reports: list[Report]) -> list[str]:
    """Every failure, with the request that shows it."""
    return [
        f"{failure.operation}: {failure.what}\n{failure.request}"
        for report in reports
        for failure in report.failures.values()
    ]


def test_every_door_answers_what_its_document_says(doors: Doors):
    reports = fuzz(doors, EXAMPLES, SEED)
    assert faults(reports) == []
    assert sum(report.total for report in reports) >= EXAMPLES
    assert all(report.statuses[200] for report in reports), "a door refused everything"


def test_every_tool_answers_whatever_it_is_called_with(doors: Doors):
    reports = fuzz_tools(doors, CALLS, SEED)
    assert faults(reports) == []
    assert all(report.examples for report in reports)
