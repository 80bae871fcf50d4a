"""Calls of every MCP tool with arguments made from the schema it advertises: such as fit, near misses, and worse.

Whatever is sent, the answer is a tool's result, which may be a refusal, or a proper error of the protocol; never an
internal one.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, cast

import requests
import schemathesis
from hypothesis import Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from api.dialects.profiles import PROFILES
from tests.fuzz.doors import Doors
from tests.fuzz.fuzzing import (
    SPOILT,
    TIMEOUT_S,
    UNCHECKED,
    AnyCase,
    Failure,
    Names,
    Operation,
    Report,
    named,
    plain,
    spoilt_object,
)

INTERNAL = -32603
FAULT = "nexpected "
"""What a tool says of a bug."""
ACCEPT = "application/json, text/event-stream"


def fuzz_tools(doors: Doors, examples: int, seed: int) -> list[Report]:
    """Call about so many times, split evenly over the tools of all profiles."""
    rng = random.Random(seed)
    share = max(1, examples // sum(len(profile.tools) for profile in PROFILES.values()))
    reports: list[Report] = []
    for profile in PROFILES:
        reports.append(report := Report(f"mcp {profile}"))
        session = requests.Session()
        session.trust_env = False
        session.headers.update({**doors.headers, "Accept": ACCEPT, "Content-Type": "application/json"})
        names = Names(rng)
        url = f"{doors.server.url}/mcp?profile={profile}"
        listed = session.post(url, data=message("tools/list", b"{}"), timeout=TIMEOUT_S).json()["result"]["tools"]
        for operation in _operations(listed):
            _call(report, operation, names, session, url, share, seed, rng)
    return reports


def message(method: str, params: bytes) -> bytes:
    """A JSON-RPC message, whose parameters may be what no encoder would write."""
    return b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method.encode(), params)


def _operations(tools: list[dict[str, Any]]) -> Iterator[Operation]:
    """The tools as if each were an endpoint whose body is its arguments: so the same machinery makes them up."""
    paths = {
        f"/{tool['name']}": {
            "post": {
                "requestBody": {"required": True, "content": {"application/json": {"schema": tool["inputSchema"]}}},
                "responses": {"200": {"description": "a result"}},
            }
        }
        for tool in tools
    }
    document = {"openapi": "3.1.0", "info": {"title": "tools", "version": "1"}, "paths": paths}
    for found in cast("Any", schemathesis.openapi.from_dict(document)).get_all_operations():
        yield found.ok()


def _call(
    report: Report,
    operation: Operation,
    names: Names,
    session: requests.Session,
    url: str,
    examples: int,
    seed: int,
    rng: random.Random,
) -> None:
    tool = operation.path.removeprefix("/")

    def call(case: AnyCase) -> None:
        given_arguments: Any = case.body
        fields = cast("dict[str, Any]", given_arguments) if isinstance(given_arguments, dict) else {}
        named(fields, names, "items")
        arguments = (
            spoilt_object(fields, rng)
            if isinstance(given_arguments, dict) and rng.random() < SPOILT
            else json.dumps(plain(given_arguments), default=repr).encode()
        )
        params = b'{"name":%s,"arguments":%s}' % (json.dumps(tool).encode(), arguments)
        answer = session.post(url, data=message("tools/call", params), timeout=TIMEOUT_S)
        report.examples[tool] += 1
        report.statuses[answer.status_code] += 1
        if what := _wrong(answer):
            request = f"tools/call {params[:2_000].decode(errors='replace')}"
            report.failures.setdefault((tool, what[:40]), Failure(f"{report.call}: {tool}", what, request))
        elif answer.ok:
            names.heard(answer.json().get("result", {}).get("structuredContent") or {}, "items")

    fits = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    for strategy in (st.one_of(fits, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)), fits):
        try:
            settings(
                max_examples=examples, phases=[Phase.generate], database=None, deadline=None,
                suppress_health_check=UNCHECKED,
            )(seeded(seed)(given(strategy)(call)))()  # fmt: skip
            return
        except Unsatisfiable:  # a tool without arguments, of which none can be wrong
            continue


def _wrong(answer: requests.Response) -> str:
    """What is wrong with an answer; empty for a tool's result, or an error that blames the caller."""
    if answer.status_code >= 500 or answer.headers.get("content-type", "") != "application/json":
        return f"{answer.status_code}: {answer.text[:500]}"
    told = answer.json()
    if "error" in told:
        return f"internal error: {told['error']}" if told["error"]["code"] == INTERNAL else ""
    result = told.get("result", {})
    texts = [one.get("text", "") for one in result.get("content", [])]
    if not texts:
        return f"no result: {answer.text[:500]}"
    return next((f"a fault of ours: {text[:500]}" for text in texts if FAULT in text), "")
