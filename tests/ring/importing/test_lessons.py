"""A lesson's past is one that ends in what it is now."""

from datetime import timedelta
from itertools import product

import pytest
from factories import NOW

from api.importing.sessions import history

DAY = timedelta(days=1)


def test_a_history_leads_to_the_stated_confidence():
    for confidence, reinforcements, age in product([0.5, 0.75, 0.85], [0, 1, 2, 5], [0, 3, 20]):
        reinforced = NOW + age * DAY if reinforcements else NOW
        past = history(confidence, reinforcements, NOW, reinforced, reinforced)
        assert len(past.confirmed) == reinforcements
        assert past.confirmed[-1:] == [reinforced] * bool(reinforcements)
        assert past.leads_to(confidence), (confidence, reinforcements, age)


def test_what_faded_began_surer():
    past = history(0.4, 0, NOW, NOW, NOW + 28 * DAY)
    assert (past.began_with, past.leads_to(0.4)) == (pytest.approx(0.6, abs=0.01), True)


def test_an_impossible_past_is_the_nearest_and_says_so():
    past = history(0.1, 20, NOW, NOW + DAY, NOW + DAY)
    assert (past.began_with, past.leads_to(0.1)) == (pytest.approx(0, abs=0.001), False)
    assert len(history(0.9, 10_000, NOW, NOW + DAY, NOW + DAY).confirmed) == 200
