"""Lessons: what makes them surer, when they speak up, how they are found and edited."""

from typing import Any

import httpx
import pytest

from tests.acceptance.asking import ask, change, read, refused, write
from tests.acceptance.running import ids

Client = httpx.AsyncClient


async def lesson(client: Client, project: str, content: str, **said: Any) -> str:
    """The id of a lesson that was just stated, and can be found."""
    told = await write(client, "/v1/lessons", project=project, content=content, **said)
    await read(client, f"/v1/lessons/{told['id']}", after=told["position"])
    return told["id"]


async def matched(client: Client, **asked: Any) -> list[str]:
    """The lessons that speak up."""
    return ids(await read(client, "/v1/lessons/match", **asked))


async def test_a_lesson_speaks_up_before_the_tool_it_is_about(client: Client, project: str):
    """By tool, by a pattern in what the tool is given, by both; the most severe first; global lessons, too."""
    plain = await lesson(client, project, "Look before you leap")
    tool = await lesson(client, project, "Check the branch first", severity="info", trigger_tool=f"Bash-{project}")
    pattern = await lesson(
        client, project, "Never force a push", severity="critical", trigger_pattern=r"git\s+push.*-f\b"
    )
    both = await lesson(
        client,
        project,
        "Quote the glob",
        severity="warning",
        trigger_tool=f"Bash-{project}",
        trigger_pattern="rm .*[*]",
    )
    everywhere = await lesson(client, "*", f"Breathe, {project}", severity="warning", trigger_tool=f"Edit-{project}")
    nowhere = await lesson(client, "", f"Sit, {project}", severity="warning", trigger_tool=f"Edit-{project}")
    shell = {"project": project, "tool_name": f"Bash-{project}", "limit": 100}
    assert await matched(client, **shell) == [tool]
    assert await matched(client, **shell, preview="GIT PUSH origin -f") == [pattern, tool]
    assert await matched(client, **shell, preview="rm -r *.pyc") == [both, tool]
    assert await matched(client, **{**shell, "limit": 1}, preview="git push -f; rm *") == [pattern]
    assert await matched(client, project=project, tool_name=f"Edit-{project}") == [everywhere]
    assert sorted(await matched(client, tool_name=f"Edit-{project}")) == sorted([everywhere, nowhere])
    assert await matched(client, project=f"{project}-other", tool_name=f"Bash-{project}") == []
    assert plain not in await matched(client, **shell, preview="leap")


async def test_showing_a_lesson_is_counted(client: Client, project: str):
    name = await lesson(client, project, "Mind the gap", severity="info", trigger_tool="Walk")
    await write(client, f"/v1/lessons/{name}/trigger")
    counted = await write(client, f"/v1/lessons/{name}/trigger")
    again = [
        (await client.post(f"/v1/lessons/{name}/trigger", params={"event_id": f"{project}-t"})).json() for _ in range(2)
    ]
    assert [one["duplicate"] for one in again] == [False, True]
    seen = await read(client, f"/v1/lessons/{name}", after=f"{counted['position']},{again[0]['position']}")
    assert seen["trigger_count"] == 3
    assert seen["triggered_at"] is not None
    assert seen["reinforcements"] == 0


async def test_a_confirmed_lesson_is_surer(client: Client, project: str):
    name = await lesson(client, project, "Sum first, round last", confidence=0.5)
    told = await write(client, f"/v1/lessons/{name}/reinforce")
    assert told["id"] == name
    seen = await read(client, f"/v1/lessons/{name}", after=told["position"])
    assert (seen["reinforcements"], seen["confidence"]) == (1, pytest.approx(0.55))


async def test_an_edited_lesson_keeps_its_id_and_what_was_not_said(client: Client, project: str):
    """Switched off, it neither speaks up nor is found; switched on again it does."""
    name = await lesson(client, project, "Never deploy on Fridays", severity="warning", tags=["deploy"])
    edited = await change(client, f"/v1/lessons/{name}", content="Never deploy after lunch", trigger_tool="Deploy")
    assert edited["id"] == name
    seen = await read(client, f"/v1/lessons/{name}", after=edited["position"])
    assert (seen["content"], seen["severity"], seen["tags"]) == ("Never deploy after lunch", "warning", ["deploy"])
    assert await matched(client, project=project, tool_name="Deploy") == [name]
    off = await change(client, f"/v1/lessons/{name}", active=False)
    assert await matched(client, project=project, tool_name="Deploy", after=off["position"]) == []
    assert ids(await ask(client, "/v1/lessons/search", query="deploy after lunch", project=project)) == []
    on = await change(client, f"/v1/lessons/{name}", active=True)
    assert await matched(client, project=project, tool_name="Deploy", after=on["position"]) == [name]


async def test_saying_the_edited_text_again_does_not_bring_the_old_words_back(client: Client, project: str):
    """What counts as saying it again stays the first wording."""
    name = await lesson(client, project, "Tabs are better")
    await change(client, f"/v1/lessons/{name}", content="Spaces are better")
    again = await write(client, "/v1/lessons", project=project, content="tabs are better")
    assert again["id"] == name
    seen = await read(client, f"/v1/lessons/{name}", after=again["position"])
    assert (seen["content"], seen["reinforcements"]) == ("Spaces are better", 1)


async def test_lessons_are_searched_by_relevance_and_confidence(client: Client, project: str):
    sure = await lesson(client, project, "Pin the numpy version in the lock file", confidence=0.9)
    unsure = await lesson(client, project, "Pin the scipy version in the lock file", confidence=0.3)
    await lesson(client, project, "Water the plants on Monday", confidence=1.0)
    found = await ask(client, "/v1/lessons/search", query="pin version lock", project=project, min_confidence=0.2)
    assert ids(found)[:2] == [sure, unsure]
    scores = [one["score"] for one in found["items"]]
    assert scores == sorted(scores, reverse=True)
    found = await ask(client, "/v1/lessons/search", query="pin version lock", project=project, min_confidence=0.8)
    assert unsure not in ids(found)
    found = await ask(client, "/v1/lessons/search", query="pin version lock", project=project, limit=1)
    assert ids(found) == [sure]


async def test_the_surest_lessons_come_first(client: Client, project: str):
    low = await lesson(client, project, "maybe so", confidence=0.2)
    high = await lesson(client, project, "surely so", confidence=0.9, origin="review")
    page = await read(client, "/v1/lessons/surest", project=project)
    assert [one for one in ids(page) if one in (low, high)] == [high, low]
    assert page["items"][ids(page).index(high)]["confidence_now"] == pytest.approx(0.9)
    assert ids(await read(client, "/v1/lessons/surest", project=project, origin="review")) == [high]
    assert low not in ids(await read(client, "/v1/lessons/surest", project=project, min_confidence=0.5))


@pytest.mark.parametrize("what", ["reinforce", "trigger"])
async def test_only_a_lesson_that_is_there_can_be_confirmed_or_shown(client: Client, what: str):
    assert (await refused(client, "POST", f"/v1/lessons/lsn_00000000000000000000/{what}"))[:2] == (404, "not_found")
    assert (await refused(client, "PATCH", "/v1/lessons/lsn_00000000000000000000", {"title": "x"}))[0] == 404
