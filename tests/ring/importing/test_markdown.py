"""Folders of Markdown as memories: sections, observations, relations, front matter."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import TENANT
from imported import documents, events

from api.importing.markdown import SECTION_CHARS, open_source
from api.importing.source import ImportRequest, Source
from ingest.errors import CommandRejected
from projections.nouns.memory import Memory
from projections.nouns.relation import Relation

NOTES = Path(__file__).with_name("files") / "notes"
COFFEE = """---
title: Coffee Brewing
type: note
tags: [coffee, "brewing"]
created: 2025-10-24
status: active
---

# Coffee Brewing

Better than [[Tea|a tea]].

## Observations
- [method] Pour over is clearer #taste (my opinion)
- [ ] buy beans
- [00:01] said at the start
- [a link](https://example.com)

```md
# no heading
- [no] observation with [[No Link]]
```

## Relations
- relates_to [[Coffee Beans]]
- "based on" [[Customer Interview]] (in May)
- see also [[Kettles#electric]]
"""


def opened(path: Path, project: str | None = None) -> Source:
    return open_source(ImportRequest(str(path), TENANT, project=project))


def found(source: Source, kind: type[Any]) -> list[Any]:
    rows = [placed.row for placed in source.rows([]) if placed.row.kind != "file"]
    return documents(events("markdown", source.mapped, rows), kind)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    (folder / "coffee.md").write_text(COFFEE)
    return folder


def test_a_section_is_a_memory_under_its_headings(notes: Path):
    memories = {memory.title: memory for memory in found(opened(notes), Memory) if "method" not in memory.tags}
    intro = memories["Coffee Brewing"]
    assert (intro.content, intro.project, intro.tags) == (
        "Better than [[Tea|a tea]].",
        "kitchen",
        ["coffee", "brewing"],
    )
    assert (intro.files, intro.concepts) == (["coffee.md"], ["Coffee Brewing"])
    assert intro.metadata == {"type": "note", "created": "2025-10-24", "status": "active"}
    assert intro.occurred_at == datetime(2025, 10, 24, tzinfo=UTC)
    rest = memories["Coffee Brewing > Observations"].content
    assert rest.startswith("- [ ] buy beans\n- [00:01] said at the start\n- [a link](https://example.com)")
    assert "- [no] observation with [[No Link]]" in rest


def test_an_observation_is_a_memory_with_its_category_and_tags(notes: Path):
    (seen,) = [memory for memory in found(opened(notes), Memory) if "method" in memory.tags]
    assert seen.content == "Pour over is clearer #taste (my opinion)"
    assert seen.tags == ["method", "coffee", "brewing", "taste"]


def test_relations_and_links_are_between_notes(notes: Path):
    source = opened(notes)
    assert {(one.source, one.relation, one.target) for one in found(source, Relation)} == {
        ("Coffee Brewing", "relates_to", "Coffee Beans"), ("Coffee Brewing", "based on", "Customer Interview"),
        ("Coffee Brewing", "links_to", "Kettles"), ("Coffee Brewing", "links_to", "Tea"),
    }  # fmt: skip
    assert {memory.content for memory in found(source, Memory) if "relation" in memory.tags} == {
        "Coffee Brewing relates to Coffee Beans", "Coffee Brewing based on Customer Interview (in May)",
    }  # fmt: skip


def test_a_note_that_basic_memory_wrote_is_read():
    source = opened(NOTES)
    memories = {memory.content: memory.tags for memory in found(source, Memory)}
    assert memories.pop("Pour over tastes clearer #brewing (my opinion)") == ["method", "coffee", "brewing"]
    assert (memories, source.notes) == ({"Coffee relates to Tea (both are drinks)": ["relation"]}, [])


def test_files_for_agents_are_instructions_in_the_project_of_their_folder(tmp_path: Path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "CLAUDE.md").write_text("\ufeff# Shop\r\n\r\nUse make.\r\n\r\n## Style ##\r\n\r\nShort names.\r\n")
    (folder / ".cursorrules").write_text("Ask first.\n- Never push to main\n- [x] done\n\n```\n- no rule\n```\n")
    (folder / "MEMORY.md").write_text("- Deploys happen on Tuesdays\n")
    os.utime(folder / "CLAUDE.md", (1_700_000_000, 1_700_000_000))
    alone = found(opened(folder / "CLAUDE.md"), Memory)
    assert {memory.title: memory.content for memory in alone} == {
        "CLAUDE > Shop": "Use make.", "CLAUDE > Shop > Style": "Short names.",
    }  # fmt: skip
    assert {(memory.project, memory.tags[0], memory.occurred_at) for memory in alone} == {
        ("shop", "instructions", datetime.fromtimestamp(1_700_000_000, UTC))
    }
    memories = {memory.title: memory.tags for memory in found(opened(folder, "store"), Memory)}
    assert memories["MEMORY"] == []
    everything = found(opened(folder, "store"), Memory)
    assert [memory.content for memory in everything if memory.memory_type == "rule"] == ["Never push to main"]


def test_an_unchanged_section_is_the_same_event_wherever_the_folder_is(notes: Path, tmp_path: Path):
    moved = tmp_path / "copy" / "kitchen"
    moved.mkdir(parents=True)
    (moved / "coffee.md").write_text(COFFEE.replace("Better than", "Worse than"))
    ids = [
        {event.envelope.event_id for event in events("markdown", source.mapped, [one.row for one in source.rows([])])}
        for source in (opened(notes), opened(moved))
    ]
    assert (len(ids[0]), len(ids[0] & ids[1])) == (10, 9)


def test_what_is_left_out_is_reported(notes: Path):
    for name in ("node_modules/x/README.md", ".git/note.md", "photo.png", "empty.md"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text("")
    source = opened(notes)
    (note,) = source.notes
    assert all(part in note for part in ("1 folder node_modules", "1 folder .git", "1 .png file"))
    (empty,) = [placed.row for placed in source.rows([]) if placed.row.kind == "file"]
    with pytest.raises(CommandRejected, match="no text"):
        source.mapped(empty)


def test_a_long_section_is_several_memories_that_end_with_a_paragraph(tmp_path: Path):
    paragraphs = [f"{number} " + "x" * (SECTION_CHARS // 2 - 10) for number in range(5)]
    (tmp_path / "long.md").write_text("\n\n".join(paragraphs))
    memories = [memory.content for memory in found(opened(tmp_path), Memory)]
    assert [memory.count("\n\n") for memory in sorted(memories)] == [1, 1, 0]
    assert "\n\n".join(sorted(memories)) == "\n\n".join(paragraphs)


def test_files_with_the_same_text_are_memories_of_their_own(tmp_path: Path):
    for name in ("may", "june", "july"):
        (tmp_path / f"{name}.md").write_text("# Status\n\nNothing to report this week.\n")
    assert [memory.is_latest for memory in found(opened(tmp_path), Memory)] == [True] * 3


def test_a_time_that_is_none_is_reported_and_another_one_is_used(tmp_path: Path):
    for name, front in (("a", "created: 2025-10-24\nmodified: last May"), ("b", "created: soon")):
        (tmp_path / f"{name}.md").write_text(f"---\n{front}\n---\nText {name}")
    os.utime(tmp_path / "b.md", (1_700_000_000, 1_700_000_000))
    source = opened(tmp_path)
    times = {memory.content: memory.occurred_at for memory in found(source, Memory)}
    assert times == {
        "Text a": datetime(2025, 10, 24, tzinfo=UTC), "Text b": datetime.fromtimestamp(1_700_000_000, UTC),
    }  # fmt: skip
    lost = [source.mapped(placed.row).lost for placed in source.rows([])]
    assert lost == [["`modified` of the front matter is not a time"], ["`created` of the front matter is not a time"]]


def test_files_and_folders_that_cannot_be_read_are_reported(notes: Path, monkeypatch: pytest.MonkeyPatch):
    (notes / "gone.md").symlink_to("nothing.md")
    (notes / "locked").mkdir()
    listed = os.scandir

    def scandir(path: Any) -> Any:  # for root, every folder can be read
        return listed(path if Path(path).name != "locked" else notes / "coffee.md")

    monkeypatch.setattr("os.scandir", scandir)
    rows = [placed.row for placed in opened(notes).rows([]) if placed.row.kind == "file"]
    reasons = [row.value["unreadable"].partition(" cannot be read: ") for row in rows]
    assert sorted((what, why[:14]) for what, _, why in reasons) == [
        ("the file", "No such file o"), ("the folder", "Not a director"),
    ]  # fmt: skip


def test_a_name_that_is_not_utf_8_is_read(tmp_path: Path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system has names in UTF-8 only")
    for name in (b"th\xe9.md", b"photo.\xe9"):
        (folder / os.fsdecode(name)).write_text("Green")
    source = opened(folder)
    (memory,) = found(source, Memory)
    assert (memory.files, memory.project) == (["th\ufffd.md"], "caf\ufffd")
    assert source.notes == ["left out because it is not Markdown: 1 .\ufffd file"]


def test_the_folder_above_gives_its_own_name(notes: Path, monkeypatch: pytest.MonkeyPatch):
    (notes / "sub").mkdir()
    monkeypatch.chdir(notes / "sub")
    assert {memory.project for memory in found(opened(Path("..")), Memory)} == {"kitchen"}
