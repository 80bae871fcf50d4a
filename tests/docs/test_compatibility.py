"""The compatibility page says what the suites cover, and the suites cover what clients depend on."""

import pytest

from tests.support.compatibility import PAGE, SYSTEMS, System, page, rows, unknown

TITLES = [system.title for system in SYSTEMS]


@pytest.mark.parametrize("system", SYSTEMS, ids=TITLES)
def test_every_endpoint_and_tool_that_clients_depend_on_has_a_test(system: System):
    assert [row.endpoint for row in rows(system) if row.level in ("M", "S") and not row.tests] == []


@pytest.mark.parametrize("system", SYSTEMS, ids=TITLES)
def test_the_suite_covers_nothing_that_is_not_there(system: System):
    assert unknown(system) == set()


def test_the_page_is_what_the_suites_say():
    assert PAGE.read_text() == page(), "run: python -m tests.support.compatibility"
