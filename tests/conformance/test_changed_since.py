"""Memories and lessons that name a file, and what changed of it since: against a real Valkey."""

from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, ConfirmMemory
from ingest.ids import DocumentId
from projections.forgetting.forget import Forgetting
from projections.index.protocol import IndexService
from projections.nouns.access import Reader
from projections.nouns.document import Document
from projections.queries.lookup import FileChange, Lookup

READER = Reader(TENANT)
NO_INDEX = cast(IndexService, None)


class Desk:
    """Edits and remembers, an hour apart, and asks what changed."""

    def __init__(self, shop: Workshop) -> None:
        self.shop, self.at = shop, shop.clock() - timedelta(days=1)

    def later(self) -> datetime:
        self.at += timedelta(hours=1)
        return self.at

    async def edit(self, path: str, session: str = "s1", tool: str = "Edit", **fields: Any) -> str:
        data = {"tool_name": tool, "tool_input": {"file_path": path, "new_string": "x = 1"}}
        about = {"kind": "post_tool_use", "data": data, "occurred_at": self.later(), "agent_id": "ada", **fields}
        return (await self.shop.observe("", session, **about)).id

    async def remember(self, content: str, **fields: Any) -> str:
        return (await self.shop.remember(content, occurred_at=self.later(), **fields)).id

    async def changed(self, name: str, reader: Reader = READER) -> list[FileChange]:
        await self.shop.project()
        documents: list[Document] = [row.document for row in await self.shop.documents.find_all([DocumentId(name)])]
        return (await Lookup(NO_INDEX, self.shop.documents).changed_since(documents, reader)).get(name, [])


@pytest.fixture
def desk(shop: Workshop) -> Desk:
    return Desk(shop)


async def test_later_edits_are_counted_in_every_session_and_the_last_is_named(desk: Desk):
    await desk.edit("/home/mira/fjord/src/pool.py")
    name = await desk.remember("The pool in src/pool.py has 20 connections.")
    assert await desk.changed(name) == []
    last = ""
    for n in range(14):
        last = await desk.edit("/home/mira/fjord/src/pool.py", f"s{n // 11}", "Write")
    (change,) = await desk.changed(name)
    assert (change.file, change.times, change.at, change.by) == ("src/pool.py", 14, desk.at, last)
    assert str(change) == "src/pool.py changed 14 times since"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/home/mira/fjord/lib/pool.py", {}),
        ("/home/mira/fjord/src/pool.pyi", {}),
        ("/home/mira/fjord/src/pool.py", {"project": "delta"}),
        ("/home/mira/fjord/src/pool.py", {"tool": "Read"}),
        ("/home/mira/fjord/src/pool.py", {"kind": "post_tool_failure"}),
    ],
)
async def test_other_files_projects_and_calls_mark_nothing(desk: Desk, path: str, fields: dict[str, Any]):
    name = await desk.remember("The pool in src/pool.py has 20 connections.")
    await desk.edit(path, **fields)
    assert await desk.changed(name) == []


async def test_a_bare_name_is_marked_while_it_is_that_of_one_file(desk: Desk):
    name = await desk.remember("The pool is in `pool.py`.")
    await desk.edit("/fjord/src/pool.py")
    assert [change.times for change in await desk.changed(name)] == [1]
    await desk.edit("/fjord/lib/pool.py")
    assert await desk.changed(name) == []


async def test_files_of_one_name_in_two_projects_are_kept_apart(desk: Desk):
    names = [await desk.remember("See src/pool.py.", project=project) for project in ("atlas", "delta")]
    await desk.edit("src/pool.py", project="delta")
    await desk.shop.project()
    documents = [row.document for row in await desk.shop.documents.find_all([DocumentId(name) for name in names])]
    assert list(await Lookup(NO_INDEX, desk.shop.documents).changed_since(documents, READER)) == names[1:]


async def test_a_patch_a_lesson_and_a_field_count_and_a_confirmation_starts_again(desk: Desk):
    lesson = (await desk.shop.learn("Run the tests after a change of src/app.ts.", occurred_at=desk.later())).id
    memory = await desk.remember("The app is small.", files=["src/app.ts"])
    patch = "*** Begin Patch\n*** Update File: src/app.ts\n@@\n+const a = 1;\n*** End Patch"
    data = {"tool_name": "apply_patch", "tool_input": {"input": patch}, "tool_output": "Done!"}
    await desk.shop.observe("", kind="post_tool_use", data=data, occurred_at=desk.later())
    assert [change.file for name in (lesson, memory) for change in await desk.changed(name)] == ["src/app.ts"] * 2
    await desk.shop.say(ConfirmMemory(project="atlas", memory=memory))
    assert await desk.changed(memory) == []


async def test_a_forgotten_edit_marks_nothing_and_an_isolated_reader_sees_its_own(desk: Desk):
    name = await desk.remember("The pool in src/pool.py has 20 connections.")
    await desk.edit("src/pool.py")
    await desk.edit("src/pool.py", "s2", agent_id="bob")
    isolated = {agent: await desk.changed(name, Reader(TENANT, agent, "isolated")) for agent in ("ada", "bob", "eve")}
    assert {agent: [one.times for one in changes] for agent, changes in isolated.items()} == {
        "ada": [1],
        "bob": [1],
        "eve": [],
    }
    session = await desk.shop.session("s2")
    await Forgetting(desk.shop.another_current()).session(session, Caller(TENANT))
    assert [change.times for change in await desk.changed(name)] == [1]
