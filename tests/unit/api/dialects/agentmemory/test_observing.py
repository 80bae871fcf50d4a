from datetime import UTC, datetime

import pytest

from api.dialects.agentmemory.sessions import moment_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "said", ["2026-01-31T12:00:00.000Z", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00", 1769860800, 1769860800000]
)
def test_a_moment_is_read_however_it_is_written(said: str | float):
    assert moment_of(said) == NOON


@pytest.mark.parametrize("said", ["", "soon", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", 1e300, -5])
def test_what_is_no_moment_of_this_era_is_none(said: str | float):
    assert moment_of(said) is None
