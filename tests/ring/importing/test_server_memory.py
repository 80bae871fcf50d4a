"""The graph of the MCP reference server: what entities and relations become."""

import json
from pathlib import Path
from typing import Any

import pytest
from factories import TENANT
from imported import documents, events

from api.importing.server_memory import open_source
from api.importing.source import ImportRequest, Source
from ingest.errors import CommandRejected
from ingest.events.envelope import Event
from projections.documents.memories import Memory
from projections.documents.relations import Relation

FILE = Path(__file__).with_name("files") / "server-memory.jsonl"


def made_of(source: Source) -> list[Event]:
    return events("server-memory", source.mapped, [placed.row for placed in source.rows([])])


def written(folder: Path, *lines: Any) -> Source:
    file = folder / "memory.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    return open_source(ImportRequest(str(file), TENANT, project="home"))


def test_each_observation_is_a_memory_about_its_entity():
    memories = documents(made_of(open_source(ImportRequest(str(FILE), TENANT))), Memory)
    assert {memory.content: (memory.title, memory.tags) for memory in memories} == {
        "Ada writes programs": ("Ada", ["person"]), "Ada: likes tea": ("Ada", ["person"]),
        "Ada: speaks French": ("Ada", ["person"]), "Acme is of type company": ("Acme", ["company"]),
        "Ada works at Acme": ("Ada works at Acme", ["relation"]),
    }  # fmt: skip
    assert {memory.project for memory in memories} == {"server-memory"}


def test_a_relation_is_between_two_names():
    (relation,) = documents(made_of(open_source(ImportRequest(str(FILE), TENANT))), Relation)
    assert (relation.source, relation.relation, relation.target) == ("Ada", "works_at", "Acme")


def test_a_new_observation_leaves_the_others_as_they_are(tmp_path: Path):
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea"]}
    before = made_of(written(tmp_path, entity))
    after = made_of(written(tmp_path, {**entity, "observations": ["likes tea", "likes rain"]}))
    assert [event.envelope.event_id for event in before] == [event.envelope.event_id for event in after][:1]
    assert len(after) == 2


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"type": "dream", "name": "x"}, "type"),
        ({"type": "entity", "observations": ["x"]}, "name"),
        ({"type": "relation", "from": "a", "relationType": "b"}, "to"),
    ],
)
def test_a_line_of_another_kind_is_refused_by_its_field(tmp_path: Path, line: Any, field: str):
    source = written(tmp_path, {"type": "entity", "name": "Ada", "observations": []}, line)
    row = next(placed.row for placed in source.rows([]) if placed.row.value.get("name") != "Ada")
    assert source.total() == 2
    with pytest.raises(CommandRejected) as refused:
        source.mapped(row)
    assert refused.value.field == field


def test_a_long_relation_is_cut_and_reported(tmp_path: Path):
    source = written(tmp_path, {"type": "relation", "from": "a", "to": "b", "relationType": "x" * 70})
    mapped = source.mapped(next(source.rows([])).row)
    assert list(mapped.lost) == ["relations: names longer than 512 characters, types longer than 64"]
    (relation,) = documents(made_of(source), Relation)
    assert relation.relation == "x" * 64
