"""Whose an event of the log is: what names no tenant may be anybody's."""

import pytest

from ingest.log.position import START
from ingest.key_scope import ANYWHERE, Reach
from projections.documents.access import Reader
from projections.queries.log_events import WantedEvents


@pytest.mark.parametrize(
    ("reach", "shown"),
    [
        (ANYWHERE, True),
        (Reach(within_tenant=True), False),
        (Reach(projects=("shop",)), False),
        (Reach(agents=("ada",), within_tenant=True), False),
    ],
)
@pytest.mark.parametrize("operator", [False, True])
def test_an_event_that_names_no_tenant_is_shown_to_operators_alone(reach: Reach, shown: bool, operator: bool):
    reader = Reader("default", operator=operator, reach=reach)
    assert WantedEvents(reader).matches({"unreadable": "AAAA"}, START) is shown


def test_an_event_of_the_tenant_is_shown_to_a_key_of_the_tenant():
    reader = Reader("default", reach=Reach(within_tenant=True))
    assert WantedEvents(reader).matches({"tenant": "default", "project": "shop"}, START)
    assert not WantedEvents(reader).matches({"tenant": "elsewhere", "project": "shop"}, START)
