"""The pure parts of webhooks: addresses, signatures, waits, and when an event is given up."""

import json
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from standardwebhooks import Webhook

from ingest.errors import CommandRejected
from ingest.log.position import START, Position, Token
from projections.nouns.access import Reader
from projections.queries.log_events import Criteria, EventFilter
from projections.webhooks.deliveries import LONGEST_WAIT_S, gives_up, is_due, wait_s
from projections.webhooks.sending import BODY_BYTES, Sender, check_secret, is_public, new_secret, signature
from projections.webhooks.subscriptions import Owner, Progress, Subscription, occurrence

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
OWNER = Owner("default", "key", Reader("default").key_scope, 0)
HOOK = Subscription(
    owner=OWNER, url="https://a.example/", type="*", criteria=Criteria(), secrets=["s"], refreshed_at=NOW
)
PROGRESS = Progress(cursor="0:5-0", tried_at=NOW)
APPLIED = Token({0: Position(9, 0)})


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
        "fe80::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fe80::1%eth0",
    ],
)  # fmt: skip
def test_addresses_of_special_networks_are_not_public(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2002:5db8:d70e::"])
def test_only_globally_routable_addresses_are_public(address: str):
    assert is_public(address)


@pytest.mark.parametrize(
    "url", ["http://localhost/", "https://127.0.0.1/", "https://[::1]/x", "file:///etc", "https://u@h/"]
)
async def test_urls_of_private_hosts_are_rejected_without_the_setting(url: str):
    with pytest.raises(CommandRejected):
        await Sender(private=False).address_of(url)


async def test_private_hosts_can_be_http_with_the_setting():
    assert await Sender(private=True).address_of("http://127.0.0.1:80/") == "127.0.0.1"


def test_signature_is_accepted_by_the_standard_library():
    secret, body, now = new_secret(), b'{"eventId": "0:1-0"}', int(time())
    headers = {
        "webhook-id": "0:1-0", "webhook-timestamp": str(now), "webhook-signature": signature(secret, "0:1-0", now, body)
    }  # fmt: skip
    assert Webhook(secret).verify(body, headers) == {"eventId": "0:1-0"}


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "whsec_QUJD", "QUJD" * 8, "whsec_" + "QUJD" * 30])
def test_secrets_of_another_form_are_rejected(secret: str):
    with pytest.raises(CommandRejected):
        check_secret(secret)


def test_waits_double_up_to_the_longest():
    assert [wait_s(failures) for failures in range(5)] == [0, 1, 2, 4, 8]
    assert wait_s(10_000) == LONGEST_WAIT_S


@pytest.mark.parametrize(
    ("status", "failing", "given_up"),
    [
        (0, timedelta(days=2), False), (503, timedelta(days=2), False), (429, timedelta(hours=1), False),
        (0, timedelta(days=3), True), (404, timedelta(minutes=14), False), (404, timedelta(minutes=15), True),
        (410, timedelta(), True), (413, timedelta(), True),
    ],
)  # fmt: skip
def test_event_is_given_up_by_answer_and_time(status: int, failing: timedelta, given_up: bool):
    assert gives_up(status, failing) is given_up


def test_subscription_is_due_when_it_has_events_and_has_waited():
    later = NOW + timedelta(seconds=3)
    failing = Progress(cursor="0:5-0", tried_at=NOW, failures=2)
    refreshed = Subscription(
        owner=OWNER, url=HOOK.url, type="*", criteria=Criteria(), secrets=["s"], refreshed_at=later
    )
    assert is_due(HOOK, PROGRESS, APPLIED, NOW)
    assert not is_due(HOOK, PROGRESS, Token({0: Position(5, 0)}), later)
    assert (is_due(HOOK, failing, APPLIED, NOW), is_due(HOOK, failing, APPLIED, later)) == (False, True)
    disabled = Progress(cursor="0:5-0", tried_at=NOW, disabled=True)
    assert (is_due(HOOK, disabled, APPLIED, later), is_due(refreshed, disabled, APPLIED, later)) == (False, True)


def test_same_owner_url_and_events_have_one_id():
    assert (
        HOOK.id
        == Subscription(owner=OWNER, url=HOOK.url, type="*", criteria=Criteria(), secrets=[], refreshed_at=NOW).id
    )
    other = OWNER._replace(key_id="other")
    assert (
        HOOK.id
        != Subscription(owner=other, url=HOOK.url, type="*", criteria=Criteria(), secrets=[], refreshed_at=NOW).id
    )


@pytest.mark.parametrize(
    ("patterns", "matches"),
    [("", True), ("memory.*", True), ("action.*, memory.recorded", True), ("memory", False), ("action.*", False)],
)
def test_type_filter_takes_names_and_patterns(patterns: str, matches: bool):
    event = {"tenant": "default", "type": "memory.recorded"}
    assert EventFilter(Reader("default"), patterns).matches(event, START) is matches


def test_occurrence_over_the_limit_leaves_out_what_the_event_says():
    event: dict[str, Any] = {
        "position": "0:1-0",
        "recorded_at": NOW,
        "type": "x",
        "data": {"content": "y" * BODY_BYTES},
    }
    body = occurrence(event, "0:1-0")
    assert (body["name"], body["data"]["data"]) == ("x", {"omitted": True})
    assert len(json.dumps(body)) < BODY_BYTES
