"""Whose an event of the log is: what names no tenant may be anybody's."""

import pytest

from ingest.log.position import START
from ingest.roles import ANYWHERE, KeyScope
from projections.documents.access import Reader
from projections.queries.log_events import EventFilter


@pytest.mark.parametrize(
    ("key_scope", "shown"),
    [
        (ANYWHERE, True),
        (KeyScope(within_tenant=True), False),
        (KeyScope(projects=("shop",)), False),
        (KeyScope(agents=("ada",), within_tenant=True), False),
    ],
)
@pytest.mark.parametrize("operator", [False, True])
def test_an_event_that_names_no_tenant_is_shown_to_operators_alone(key_scope: KeyScope, shown: bool, operator: bool):
    reader = Reader("default", operator=operator, key_scope=key_scope)
    assert EventFilter(reader).matches({"unreadable": "AAAA"}, START) is shown


def test_an_event_of_the_tenant_is_shown_to_a_key_of_the_tenant():
    reader = Reader("default", key_scope=KeyScope(within_tenant=True))
    assert EventFilter(reader).matches({"tenant": "default", "project": "shop"}, START)
    assert not EventFilter(reader).matches({"tenant": "elsewhere", "project": "shop"}, START)
