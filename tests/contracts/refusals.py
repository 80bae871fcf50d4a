"""The 422 of services made with FastAPI: a list of what is wrong, each with its place."""

from typing import Any, NamedTuple

import httpx

ALWAYS = {"type", "loc", "msg", "input"}


class Refusal(NamedTuple):
    """One thing that is wrong."""

    type: str
    loc: list[str | int]
    input: Any


def refusals(answer: httpx.Response) -> list[Refusal]:
    """What a 422 says is wrong; fails when it is no 422, or none in the standard shape."""
    assert answer.status_code == 422, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"detail"}
    results: list[Refusal] = []
    for row in answer.json()["detail"]:
        assert ALWAYS <= row.keys() <= ALWAYS | {"ctx"}
        assert isinstance(row["msg"], str)
        assert row["msg"]
        results.append(Refusal(row["type"], row["loc"], row["input"]))
    assert results
    return results


def places(answer: httpx.Response) -> list[list[str | int]]:
    """Where a 422 says that something is wrong."""
    return [refusal.loc for refusal in refusals(answer)]


def reason(answer: httpx.Response, status: int) -> str:
    """The sentence of a refusal of another kind."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.json().keys() == {"detail"}
    assert isinstance(answer.json()["detail"], str)
    return answer.json()["detail"]
