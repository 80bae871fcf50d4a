"""Requests made from the doors' own OpenAPI documents, and whether the answers are what the documents say.

Every operation of every door gets requests that fit its schema, requests that do not, and between them such as name
what earlier answers named. Nothing is left out; what wipes the server comes last. A 503 is asked again, as clients are
told to; one that stays is a failure, like every other 5xx.
"""

import json
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks as conformance

from tests.fuzz.doors import Api, Doors

Operation: TypeAlias = Any
AnyCase: TypeAlias = Any
"""schemathesis' APIOperation and Case, which are generic over its own insides."""
UNCHECKED = (
    HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example,
)  # fmt: skip
"""What a strategy made from somebody's schema cannot help."""
CHECKS: list[Any] = [
    checks.not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
]
STRICTER: list[Any] = [*CHECKS, conformance.negative_data_rejection]
STRICT = frozenset({"native"})
"""Doors that refuse whatever does not fit their schemas. The others read leniently, as the servers that they stand in
for do: a number may be text, what is unknown is passed over."""
LENIENT = frozenset(
    {
        "/v1/events",  # one bad item rejects that item only
        "/v1/admin/import",  # one bad line rejects that line only
        "/mcp",  # what is wrong in a JSON-RPC message is told in the answer
    }
)
LAST = (
    "/v1/forget",  # a project or a user, with all that is theirs
    "/v1/admin/rebuilds",  # every partition anew, while the next requests wait for what they wrote
    "/agentmemory/import",  # with the strategy `replace`, everything goes
    "/agentmemory/forget",
    "/agentmemory/auto-forget",
)
"""Paths of what makes the others find nothing, or wait."""
TIMEOUT_S = 60
PATIENCE = 40
PAUSE_S = 0.25
"""Between asking again after a 503, so often."""
KEPT = 50
"""Names of each kind that are kept of answers, and failures of each operation."""
REPLICATED_IN = 0.1
"""How many of the requests that ask for a replica still do: there is none, which each is told after three seconds."""
NAMED_IN = 0.4
"""How many of the requests name what an answer named, where they can."""
SPOILT = 0.15
"""How many of the requests have something in them that JSON or a URL can say and no schema asks for."""
_LITERALS = (
    '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800 x"', "NaN", "-Infinity", "1e999", "-1e-999", "9" * 400, "-" + "9" * 400,
    "18446744073709551616", "9223372036854775808", "[" * 5_000 + "]" * 5_000, '{"a":' * 500 + "1" + "}" * 500, "null",
    '""', '" "', "true", "0", "-1", "1.5", "[]", "{}", "[null]", '"\xff"',
    '"\u202e\u0000\ufeff"', '"' + 70_000 * "x" + '"',
)  # fmt: skip
_VALUES = (
    "\0",
    " ",
    "9" * 400,
    "NaN",
    "-Infinity",
    "1e999",
    "-1",
    "0",
    "null",
    "\u202e\ufeff",
    "a\0b",
    "%",
    "\r\n",
)
MAX_URL_BYTES = 60_000
"""The HTTP server itself refuses a request line of more than 64 KiB, with a plain 400, before any door sees it."""
_BODY_FIELDS = frozenset({"id", "label", "project", "session_id", "sessionId", "memory", "source", "target", "start"})


@schemathesis.serializer("application/x-ndjson")
def _as_lines(context: schemathesis.SerializationContext, value: Any) -> bytes:
    """One value a line; what is no list is one line."""
    return b"\n".join(map(msgspec.json.encode, plain(value if isinstance(value, list) else [value])))


@schemathesis.serializer("application/msgpack")
def _as_msgpack(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return msgspec.msgpack.encode(plain(value))


@schemathesis.serializer("application/x-protobuf")
def _as_bytes(context: schemathesis.SerializationContext, value: Any) -> bytes:
    """Bytes that are hardly ever a message."""
    return msgspec.json.encode(plain(value))


def plain(value: Any) -> Any:
    """A value that msgpack and msgspec take: numbers of more than 64 bits and lone surrogates as text."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, dict):
        return {str(plain(name)): plain(one) for name, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [plain(one) for one in cast("list[Any]", value)]
    return value if isinstance(value, float | bytes) else str(value)


class Failure(NamedTuple):
    """What an operation answered that it should not have, and the request as a curl command."""

    operation: str
    what: str
    request: str


@dataclass
class Report:
    """What became of one door's operations."""

    call: str
    examples: Counter[str] = field(default_factory=Counter[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict[tuple[str, str], Failure])
    repeated: int = 0

    @property
    def total(self) -> int:
        """Examples of all operations."""
        return self.examples.total()


class Names:
    """What answers named, so that later requests can ask for it. Bounded."""

    def __init__(self, rng: random.Random) -> None:
        self._known: defaultdict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._rng = rng

    def heard(self, value: Any, place: str, depth: int = 0) -> None:
        """Keep the names in an answer; `place` is what it is a list of."""
        if depth > 4:
            return
        if isinstance(value, list):
            for one in cast("list[Any]", value)[:KEPT]:
                self.heard(one, place, depth + 1)
        elif isinstance(value, dict):
            for name, one in cast("dict[str, Any]", value).items():
                if isinstance(one, str | int) and not isinstance(one, bool) and one != "":
                    self._known[name].append(one)
                    if name == "id":
                        self._known[f"{place.rstrip('s')}Id"].append(one)
                        self._known[place].append(one)
                else:
                    self.heard(one, name if name not in ("items", "results") else place, depth + 1)

    def said(self, name: str, place: str) -> Any:
        """A name that was heard of that kind; None without one, or for a change."""
        found = (self._known[place] if name == "id" else None) or self._known[name]
        return self._rng.choice(found) if found and self._rng.random() < NAMED_IN else None


def fuzz(doors: Doors, examples: int, seed: int, said: Callable[[str], None] = lambda line: None) -> list[Report]:
    """Ask about `examples` times, split evenly over the operations of all doors; what an operation has too few
    different requests for goes to the others."""
    rng = random.Random(seed)
    work: list[tuple[Api, Report, Operation, Names]] = []
    reports: list[Report] = []
    for call in doors.doors:
        reports.append(report := Report(call.name))
        names = Names(rng)
        work += [(call, report, operation, names) for operation in _operations(call)]
    work.sort(key=lambda one: one[2].path in LAST)
    exhausted: set[str] = set()
    for turn in range(10):
        left = examples - sum(report.total for report in reports)
        busy = [one for one in work if f"{one[0].name} {one[2].label}" not in exhausted]
        if left <= 0 or not busy:
            break
        share, more = divmod(left, len(busy))
        for place, (call, report, operation, names) in enumerate(busy):
            wanted = share + (place < more)
            before = report.examples[operation.label]
            _ask(call, report, operation, names, doors.headers, wanted, seed + turn, rng)
            if report.examples[operation.label] - before < wanted:
                exhausted.add(f"{call.name} {operation.label}")
            said(
                f"{call.name}: {operation.label}: {report.examples[operation.label]} asked, "
                f"{len(report.failures)} failures at this door"
            )
    return reports


def _operations(call: Api) -> Iterator[Operation]:
    schema = schemathesis.openapi.from_dict(call.document)
    schema.config.update(base_url=call.url)
    for found in cast("Any", schema).get_all_operations():
        yield found.ok()


def _ask(
    call: Api,
    report: Report,
    operation: Operation,
    names: Names,
    headers: Mapping[str, str],
    examples: int,
    seed: int,
    rng: random.Random,
) -> None:
    if not examples:
        return
    place = operation.path.split("{")[0].rstrip("/").rpartition("/")[2]
    session = requests.Session()
    session.trust_env = False

    def ask(case: AnyCase) -> None:
        renamed = _name(case, names, place)
        spoil = rng.random() < SPOILT
        report.examples[operation.label] += 1
        # a name that was heard may have taken the place of what did not fit
        lenient = spoil or (renamed and _does_not_fit(case)) or call.name not in STRICT or operation.path in LENIENT
        try:
            sent = _spoilt(case, headers, rng) if spoil else _request(case, headers)
            params: Mapping[str, Any] = sent.get("params") or {}
            if len(sent["url"]) + 12 * sum(len(str(param)) for param in params.values()) > MAX_URL_BYTES:
                return
            if sent["headers"].get("X-Durability") == "replicated" and rng.random() > REPLICATED_IN:
                del sent["headers"]["X-Durability"]
            answer = _patiently(sent, session, report)
            report.statuses[answer.status_code] += 1
            excluded: list[Any] = [checks.not_a_server_error] if _wants_a_replica(answer) else []
            case.validate_response(answer, CHECKS if lenient else STRICTER, excluded_checks=excluded)
            if answer.headers.get("content-type", "") == "application/json" and answer.content:
                names.heard(answer.json(), place)
        except FailureGroup as found:
            for exception in cast("Any", found).exceptions:
                what = f"{exception.title}: {exception.message}"
                _failed(report, operation, exception.title, what, case, headers)
        except requests.RequestException as broken:
            _failed(report, operation, type(broken).__name__, str(broken), case, headers)

    for strategy in _strategies(operation):
        before = report.examples[operation.label]
        runner = settings(
            max_examples=max(1, examples), phases=[Phase.generate], database=None, deadline=None,
            suppress_health_check=UNCHECKED,
        )(seeded(seed)(given(strategy)(ask)))  # fmt: skip
        try:
            runner()
            return
        except Unsatisfiable:  # there is nothing that does not fit: ask what fits alone
            examples -= report.examples[operation.label] - before


def _strategies(operation: Operation) -> Iterable[st.SearchStrategy[AnyCase]]:
    fits = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if operation.body or operation.query or operation.path_parameters:
        yield st.one_of(fits, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    yield fits


def _failed(report: Report, operation: Operation, kind: str, what: str, case: AnyCase, headers: Any) -> None:
    if sum(one == operation.label for one, _ in report.failures) < KEPT:
        report.failures.setdefault(
            (operation.label, kind), Failure(operation.label, what, case.as_curl_command(headers))
        )


def _does_not_fit(case: AnyCase) -> bool:
    """Whether a request was made to be refused."""
    return case.meta is not None and case.meta.generation.mode is GenerationMode.NEGATIVE


def _name(case: AnyCase, names: Names, place: str) -> bool:
    """Put what an earlier answer named in the place of some of what was made up; whether there was any."""
    before = repr((case.path_parameters, case.query, case.body))
    for container in (case.path_parameters, case.query, case.body):
        if not isinstance(container, dict):
            continue
        fields = cast("dict[str, Any]", container)
        if container is case.body:
            named(fields, names, place)
        else:
            for name in fields:
                if (heard := names.said(name, place)) is not None:
                    fields[name] = str(heard)
    return repr((case.path_parameters, case.query, case.body)) != before


def named(fields: dict[str, Any], names: Names, place: str) -> None:
    """Put what an earlier answer named into the fields of a body that are names."""
    for name in fields:
        if (name in _BODY_FIELDS or name.endswith("Id")) and (heard := names.said(name, place)) is not None:
            fields[name] = heard


def _request(case: AnyCase, headers: Mapping[str, str]) -> dict[str, Any]:
    return {**case.as_transport_kwargs(headers=dict(headers)), "timeout": TIMEOUT_S, "allow_redirects": False}


def _spoilt(case: AnyCase, headers: Mapping[str, str], rng: random.Random) -> dict[str, Any]:
    """The request with one of its values replaced by what no schema asks for."""
    for container in (case.path_parameters, case.query):
        fields = cast("dict[str, Any]", container) if isinstance(container, dict) else {}
        if fields and rng.random() < 0.5:
            fields[rng.choice(list(fields))] = rng.choice(_VALUES)
    sent = _request(case, headers)
    body: Any = case.body
    if isinstance(body, dict) and case.media_type == "application/json":
        sent.pop("json", None)
        sent["data"] = spoilt_object(cast("dict[str, Any]", body), rng)
        sent["headers"] = {**sent["headers"], "Content-Type": "application/json"}
    return sent


def spoilt_object(fields: Mapping[str, Any], rng: random.Random) -> bytes:
    """The JSON of an object, one of whose values is what no schema asks for, or no encoder writes."""
    literals = {json.dumps(name): json.dumps(plain(value), default=repr) for name, value in fields.items()}
    literals[rng.choice(list(literals) or ['"content"'])] = rng.choice(_LITERALS)
    text = "{" + ",".join(f"{name}:{value}" for name, value in literals.items()) + "}"
    return text.encode().replace("\xff".encode(), b"\xff")  # which is no UTF-8


def _wants_a_replica(answer: requests.Response) -> bool:
    """Whether it is the proper answer to who asks for a durability that one server alone cannot give."""
    return answer.status_code == 503 and b"durability_not_reached" in answer.content


def _patiently(sent: dict[str, Any], session: requests.Session, report: Report) -> requests.Response:
    """The answer; a 502 or 503 that says when to come back is asked again."""
    answer = _sent(sent, session)
    for _ in range(PATIENCE):
        if answer.status_code not in (502, 503) or "retry-after" not in answer.headers or _wants_a_replica(answer):
            break
        report.repeated += 1
        time.sleep(PAUSE_S)
        answer = _sent(sent, session)
    return answer


def _sent(sent: dict[str, Any], session: requests.Session) -> requests.Response:
    answer = session.request(**sent, stream=True)
    if "event-stream" in answer.headers.get("content-type", ""):  # it has no end: its beginning has to do
        beginning = next(answer.iter_content(chunk_size=None))
        answer.close()
        answer._content = beginning  # pyright: ignore[reportPrivateUsage]
    return answer


def table(reports: Iterable[Report]) -> str:
    """What was asked of each door, and what failed."""
    rows = [f"{'call':14}{'operations':>11}{'examples':>10}{'2xx':>8}{'4xx':>8}{'repeated':>10}{'failures':>10}"]
    for report in reports:
        good, bad = (
            sum(count for status, count in report.statuses.items() if status // 100 == hundred) for hundred in (2, 4)
        )
        rows.append(
            f"{report.call:14}{len(report.examples):>11}{report.total:>10}{good:>8}{bad:>8}{report.repeated:>10}"
            f"{len(report.failures):>10}"
        )
    return "\n".join(rows)
