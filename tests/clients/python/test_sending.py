"""One call over a real connection: what is sent, what is repeated, and what is raised."""

from datetime import UTC, datetime
from typing import Any

import pytest

import mnemolog_client as client_errors
from mnemolog_client import (
    AlreadyClaimed,
    AsyncMnemolog,
    Conflict,
    InvalidRequest,
    Mnemolog,
    MnemologError,
    NotFound,
    Overloaded,
    ProjectionBehind,
    Retry,
    ServerFault,
    StaleToken,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    VersionConflict,
)
from tests.clients.python.stub import CUT, Answer, Reply, Stub, accepted, refused
from tests.support.ports import free_port

QUICK = Retry(attempts=4, patience_s=60.0, first_pause_s=0.001, longest_pause_s=0.002)
RECALLED = Reply({"results": [], "took_ms": 1.0, "lag": {}, "degraded": [], "confidence": None})


def client_of(stub: Stub, **options: Any) -> Mnemolog:
    """A client of the stub that is in a hurry."""
    return Mnemolog(stub.url, "the-key", agent="ada", retry=QUICK, **options)


def test_a_write_says_who_speaks_and_is_decoded(stub: Stub):
    stub.answers.append(accepted(what_a_later_release_adds=1))
    with client_of(stub) as client:
        kept = client.memories.create("tea", project="shop", tags=["drinks"], importance=None)
    (sent,) = stub.received
    assert (sent.method, sent.path) == ("POST", "/v1/memories")
    assert sent.headers["authorization"] == "Bearer the-key"
    assert sent.headers["x-agent-id"] == "ada"
    assert sent.body == {
        "content": "tea", "project": "shop", "tags": ["drinks"], "event_id": sent.body["event_id"],
    }  # fmt: skip
    assert kept.id == "mem_1"


@pytest.mark.parametrize("agent", ["小王", "Zo\u00eb à", "100%25"])
def test_an_agents_name_that_is_not_ascii_is_sent_as_utf_8(stub: Stub, agent: str):
    stub.answers.append(accepted())
    with Mnemolog(stub.url, "the-key", agent=agent, retry=QUICK) as client:
        client.memories.create("tea")
    assert stub.received[0].headers["x-agent-id"].encode("latin-1").decode() == agent


def test_names_with_slashes_stay_one_part_of_the_path(stub: Stub):
    stub.otherwise = refused(404, "not_found")
    with client_of(stub) as client, pytest.raises(NotFound):
        client.sessions.get("2026/01?x")
    assert stub.received[0].path == "/v1/sessions/2026%2F01%3Fx"


AGAIN = [
    pytest.param(refused(429, "overloaded", "0"), id="429"),
    pytest.param(refused(503, "log_unavailable", "0"), id="503"),
    pytest.param(refused(503, "durability_not_reached"), id="durability not reached"),
    pytest.param(Reply(b"<html>", 502), id="a proxy without a server"),
    pytest.param(CUT, id="connection cut"),
]


@pytest.mark.parametrize("fault", AGAIN)
def test_a_write_is_repeated_with_the_same_event_id(stub: Stub, fault: Answer):
    stub.answers.extend([fault, fault, accepted()])
    with client_of(stub) as client:
        client.memories.create("tea")
    first, *others = stub.received
    assert len(others) == 2
    assert all(one.content == first.content for one in others)
    assert first.body["event_id"]


def test_a_change_that_is_not_decided_in_time_is_repeated_with_its_event_id(stub: Stub):
    applied = accepted(version=4, expires_at=None)._replace(status=200)
    stub.answers.extend([refused(503, "projection_behind", "0"), applied])
    with client_of(stub) as client:
        assert client.actions.update("act_1", priority=5, expected_version=3).version == 4
    first, again = stub.received
    assert first.content == again.content
    assert first.body["event_id"]


CONFLICTS = {
    "version_conflict": VersionConflict, "claimed": AlreadyClaimed, "stale_token": StaleToken, "finished": Conflict,
}  # fmt: skip


@pytest.mark.parametrize("code", CONFLICTS)
def test_a_conflict_is_an_error_of_its_own_with_what_the_server_reports(stub: Stub, code: str):
    members: dict[str, Any] = {"version": 7, "changed_by": "eve", "holder": "bob", "expires_at": "2026-01-31T12:00:00Z"}
    stub.otherwise = refused(409, code, **members)
    with client_of(stub) as client, pytest.raises(Conflict) as raised:
        client.actions.update("act_1", status="done", token="0:1-0")
    error = raised.value
    assert type(error) is CONFLICTS[code]
    told = error.version, error.changed_by, error.holder, error.expires_at
    assert told == (7, "eve", "bob", datetime(2026, 1, 31, 12, tzinfo=UTC))


def test_an_empty_queue_is_no_claim_and_another_absence_is_an_error(stub: Stub):
    stub.answers.extend([refused(404, "nothing_to_claim"), refused(404, "not_found")])
    with client_of(stub) as client:
        assert client.actions.claim_next("shop") is None
        with pytest.raises(NotFound):
            client.actions.claim_next("shop")


def test_two_writes_have_two_event_ids_and_a_given_one_is_kept(stub: Stub):
    stub.otherwise = accepted()
    with client_of(stub) as client:
        client.add("tea")
        client.add("tea")
        client.lessons.reinforce("lsn_1", event_id="mine")
    first, second, third = stub.received
    assert first.body["event_id"] != second.body["event_id"]
    assert third.query == {"event_id": "mine"}


def test_repeating_ends_after_so_many_attempts(stub: Stub):
    stub.otherwise = refused(429, "overloaded", "0", reason="lag")
    with client_of(stub) as client, pytest.raises(Overloaded) as raised:
        client.add("tea")
    assert len(stub.received) == QUICK.attempts
    assert raised.value.reason == "lag"


def test_a_server_that_names_a_longer_time_than_there_is_patience_is_not_waited_for(stub: Stub):
    stub.otherwise = refused(429, "overloaded", "61")
    with client_of(stub) as client, pytest.raises(Overloaded) as raised:
        client.add("tea")
    assert len(stub.received) == 1
    assert raised.value.retry_after_s == 61.0


def test_repeating_ends_when_there_is_no_patience_left(stub: Stub):
    stub.otherwise = refused(503, "log_unavailable", "0.02")
    hasty = Retry(attempts=100, patience_s=0.05)
    with Mnemolog(stub.url, retry=hasty) as client, pytest.raises(Unavailable):
        client.add("tea")
    assert len(stub.received) == 3


def test_nobody_listening_is_unreachable_and_certainly_not_done():
    with Mnemolog(f"http://127.0.0.1:{free_port()}", retry=QUICK) as client, pytest.raises(Unreachable) as raised:
        client.add("tea")
    assert not raised.value.outcome_unknown


def test_a_refusal_after_a_lost_attempt_says_that_it_may_be_our_own_doing(stub: Stub):
    """A deletion whose answer was lost: the second attempt finds nothing."""
    stub.answers.extend([CUT, refused(404, "not_found"), refused(404, "not_found")])
    with client_of(stub) as client:
        with pytest.raises(NotFound) as lost:
            client.memories.delete("mem_1")
        with pytest.raises(NotFound) as plain:
            client.memories.delete("mem_1")
    assert lost.value.after_lost_attempt
    assert "may have succeeded" in str(lost.value)
    assert not plain.value.after_lost_attempt


REFUSALS: list[tuple[int, str, type[MnemologError]]] = [
    (400, "malformed", InvalidRequest),
    (401, "unauthorized", Unauthorized),
    (403, "forbidden", client_errors.Forbidden),
    (404, "not_found", NotFound),
    (405, "method_not_allowed", InvalidRequest),
    (409, "already_there", Conflict),
    (413, "slot_full", TooLarge),
    (422, "invalid", InvalidRequest),
    (500, "internal", ServerFault),
]


@pytest.mark.parametrize(("status", "code", "kind"), REFUSALS, ids=[code for _, code, _ in REFUSALS])
def test_a_refusal_is_raised_at_once_as_what_the_caller_can_do(
    stub: Stub, status: int, code: str, kind: type[MnemologError]
):
    stub.otherwise = refused(status, code, field="limit")
    with client_of(stub) as client, pytest.raises(MnemologError) as raised:
        client.recall("tea")
    assert type(raised.value) is kind
    assert (raised.value.code, raised.value.field, raised.value.status) == (code, "limit", status)
    assert raised.value.args == (f"because of {code}",)
    assert len(stub.received) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b'{"error": 1}'])
def test_an_answer_that_is_none_of_ours_is_a_fault_of_the_server(stub: Stub, body: bytes):
    stub.answers.extend([Reply(body, 500), Reply(body, 200)])
    with client_of(stub) as client:
        for _ in range(2):
            with pytest.raises(ServerFault) as raised:
                client.recall("tea")
            assert raised.value.code == "unreadable_answer"


def test_reads_wait_for_what_the_client_wrote(stub: Stub):
    stub.answers.extend([accepted("1:5-0"), accepted("0:7-1"), RECALLED, Reply({"items": [], "next": None})])
    with client_of(stub) as client:
        client.add("tea")
        client.lessons.create("taste it")
        client.recall("tea")
        assert list(client.memories.list("shop")) == []
    assert [one.body.get("after") for one in stub.received[:3]] == [None, None, "0:7-1,1:5-0"]
    assert stub.received[3].query == {"project": "shop", "after": "0:7-1,1:5-0"}


def test_a_position_is_handed_to_another_client(stub: Stub):
    stub.otherwise = RECALLED
    with client_of(stub, position="1:5-0") as first, client_of(stub) as second:
        second.advance(first.position)
        second.advance("2:1-0")
        second.recall("tea")
    assert stub.received[0].body["after"] == "1:5-0,2:1-0"


def test_projections_that_are_behind_are_asked_again_and_then_told(stub: Stub):
    behind = refused(503, "projection_behind", "0", lag={"3": 12})
    stub.answers.extend([behind, RECALLED])
    stub.otherwise = behind
    with client_of(stub) as client:
        client.recall("tea")
        with pytest.raises(ProjectionBehind) as raised:
            client.recall("tea")
    assert raised.value.lag == {"3": 12}


def test_pages_are_asked_for_as_they_are_needed(stub: Stub):
    def page(start: int, follows: str | None) -> Reply:
        return Reply({"items": [_receipt(start), _receipt(start + 1)], "next": follows})

    stub.answers.extend([page(0, "c1"), page(2, None)])
    with client_of(stub) as client:
        receipts = client.receipts.list(page_size=2)
        assert [next(receipts).id, next(receipts).id] == ["0", "1"]
        assert len(stub.received) == 1
        assert [receipt.id for receipt in receipts] == ["2", "3"]
    assert [one.query for one in stub.received] == [{"limit": "2"}, {"limit": "2", "cursor": "c1"}]


LEFT_OUT = "left out: partitions 3, 7, on an unreachable cluster node"


def test_what_an_answer_lacks_is_told_before_it_is_returned(stub: Stub):
    """Of each page of a listing; of an answer that lacks nothing, nothing."""
    lacking = {"Mnemolog-Degraded": LEFT_OUT}
    told: list[tuple[str, str]] = []
    stub.answers.extend([Reply({"items": [], "next": "c1"}, headers=lacking), Reply({"items": [], "next": None})])

    def hear(asked: str, left_out: str) -> None:
        told.append((asked, left_out))

    with client_of(stub, on_degraded=hear) as client:
        assert list(client.sessions.list("shop")) == []
    assert told == [("GET /v1/sessions", LEFT_OUT)]


async def test_an_asyncio_client_tells_it_too(stub: Stub):
    told: list[tuple[str, str]] = []
    stub.answers.append(Reply(RECALLED.body, headers={"Mnemolog-Degraded": LEFT_OUT}))

    def hear(asked: str, left_out: str) -> None:
        told.append((asked, left_out))

    async with AsyncMnemolog(stub.url, "the-key", retry=QUICK, on_degraded=hear) as client:
        await client.recall("tea")
    assert told == [("POST /v1/recall", LEFT_OUT)]


def test_a_search_warns_that_results_may_be_missing(stub: Stub, caplog: pytest.LogCaptureFixture):
    stub.answers.extend([Reply(RECALLED.body), Reply(RECALLED.body | {"degraded": ["the index is loading"]})])
    with client_of(stub) as client:
        assert client.search("tea") == []
        assert caplog.messages == []
        assert client.search("tea") == []
    assert caplog.messages == ["results of a recall may be incomplete: the index is loading"]


def test_nobody_needs_to_hear_what_an_answer_lacks(stub: Stub):
    stub.answers.append(Reply(RECALLED.body, headers={"Mnemolog-Degraded": LEFT_OUT}))
    with client_of(stub) as client:
        assert client.recall("tea").results == []


def test_the_bounds_of_a_listing_go_with_every_page(stub: Stub):
    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    stub.answers.extend([Reply({"items": [], "next": "c1"}), Reply({"items": [], "next": None})])
    with client_of(stub) as client:
        assert list(client.memories.list("shop", since=since, recorded_until=None)) == []
    asked = {"project": "shop", "since": "2026-01-31T12:00:00+00:00"}
    assert [one.query for one in stub.received] == [asked, {**asked, "cursor": "c1"}]


def test_the_log_is_read_to_its_head_through_empty_pages(stub: Stub):
    def page(count: int, follows: str) -> Reply:
        return Reply({"events": [{"position": f"0:{n}-0"} for n in range(count)], "next": follows})

    stub.answers.extend([page(1, "0:1-0"), page(0, "0:9-0"), page(1, "0:10-0"), page(0, "0:10-0")])
    with client_of(stub, position="0:99-0") as client:
        assert [event.position for event in client.events(project="shop")] == ["0:0-0", "0:0-0"]
    assert [one.query.get("after") for one in stub.received] == [None, "0:1-0", "0:9-0", "0:10-0"]


def test_a_receipt_is_waited_for(stub: Stub):
    stub.answers.extend([Reply({**_receipt(1), "status": "running"}), Reply(_receipt(1))])
    with client_of(stub) as client:
        assert client.receipts.wait("1").status == "done"
        stub.otherwise = Reply({**_receipt(1), "status": "pending"})
        with pytest.raises(Unavailable, match="was not done within 0 s"):
            client.receipts.wait("1", timeout_s=0.0)


def test_health_is_an_answer_also_where_it_is_bad(stub: Stub):
    stub.answers.append(Reply({"status": 503, "code": "unavailable", "reason": "log", "detail": "away"}, 503))
    with client_of(stub) as client:
        health = client.health()
    assert (health.status, health.reason, health.detail) == ("unavailable", "log", "away")


async def test_the_asyncio_client_does_the_same(stub: Stub):
    stub.answers.extend([CUT, refused(429, "overloaded", "0"), accepted("1:5-0"), RECALLED])
    stub.answers.extend([Reply({"items": [_receipt(0)], "next": "c"}), Reply({"items": [_receipt(1)], "next": None})])
    stub.answers.append(refused(422, "invalid", field="query"))
    async with AsyncMnemolog(stub.url, "the-key", agent="ada", retry=QUICK) as client:
        assert (await client.add("tea")).position == client.position == "1:5-0"
        assert (await client.recall("tea")).results == []
        assert [one.id async for one in client.receipts.list()] == ["0", "1"]
        with pytest.raises(InvalidRequest):
            await client.search("")
    writes = stub.received[:3]
    assert len({write.content for write in writes}) == 1
    assert stub.received[3].body["after"] == "1:5-0"


def test_pauses_double_up_to_the_longest():
    retry = Retry(first_pause_s=0.1, longest_pause_s=5.0)
    assert [retry.pause_s(failures, max) for failures in (1, 2, 3, 7, 1_000)] == [0.1, 0.2, 0.4, 5.0, 5.0]
    assert retry.pause_s(1, min) == 0.05


@pytest.mark.parametrize("url", ["localhost:3111", "ftp://localhost", "http://"])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(ValueError, match="is not an http"):
        Mnemolog(url)


def test_a_secret_that_no_header_can_hold_is_told_at_once(stub: Stub):
    with Mnemolog(stub.url, "the key\n", retry=QUICK) as client, pytest.raises(InvalidRequest, match="cannot be sent"):
        client.recall("tea")
    assert stub.received == []


@pytest.mark.parametrize("name", ["MNEMOLOG_KEY", "MNEMOLOG_SECRET"])
def test_address_and_key_come_from_the_environment(stub: Stub, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("MNEMOLOG_URL", stub.url)
    monkeypatch.setenv(name, "of-the-environment")
    stub.otherwise = RECALLED
    with Mnemolog() as client:
        client.recall("tea")
    with Mnemolog(secret="") as client:
        client.recall("tea")
    assert stub.received[0].headers["authorization"] == "Bearer of-the-environment"
    assert "authorization" not in stub.received[1].headers


def _receipt(number: int) -> dict[str, Any]:
    told = {"kind": "user", "subject": "u", "requested_at": "2026-01-31T12:00:00Z", "status": "done"}
    return {"id": str(number), **told}


@pytest.mark.parametrize(
    ("detail", "field", "message"),
    [
        ("Expected `int` >= 1", "limit", "limit must be at least 1"),
        ("Expected `str`, got `int`", "content", "content must be text"),
        ("Expected `str` of length <= 512", "title", "title may have at most 512 characters"),
        ("Object missing required field `query`", "query", "query is missing"),
        ("Invalid enum value 'x'", "mode", "mode cannot be 'x'"),
        ("name a slot", "label", "name a slot"),
    ],
)
def test_what_a_decoder_says_of_a_field_is_worded_for_people(stub: Stub, detail: str, field: str, message: str):
    stub.otherwise = Reply({"code": "invalid", "detail": detail, "status": 422, "field": field}, 422)
    with Mnemolog(stub.url) as client, pytest.raises(InvalidRequest) as raised:
        client.recall("tea")
    assert raised.value.message == message


def test_an_answer_that_cannot_be_read_is_told_by_its_field(stub: Stub):
    stub.answers.extend([Reply({"items": [{"project": 1, "documents": 1}], "next": None}), Reply(b"<html>")])
    with Mnemolog(stub.url) as client:
        with pytest.raises(ServerFault, match=r"cannot be read: items\[0\]\.project must be text$"):
            list(client.projects())
        with pytest.raises(ServerFault, match=r"cannot be read: it is not JSON$"):
            list(client.projects())


def test_a_value_that_has_no_form_in_json_is_an_invalid_request(stub: Stub):
    with Mnemolog(stub.url) as client:
        with pytest.raises(InvalidRequest, match="data: object"):
            client.observations.create("s1", data=object())  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidRequest, match="cannot be sent as JSON"):
            client.batch([{"type": "remember", "content": object()}])
    assert stub.received == []
