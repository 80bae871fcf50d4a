"""Which documents a filter lets through: the same ones for every question that takes one."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from indexes import T0, Filled

from projections.index.protocol import Index
from projections.search.question import Filter, Hit, Question

ODD = (
    "a,b", "a|b", "{a}", "a b", " a", "a ", "A", "a", "Ünï", "ünï", "東京", "🙂", "x" * 200, "x" * 201, "y" * 5_000,
    "-a", "a*", "@a:{b}", "_", "_e", "_h00", "'\"\\", "%a%", "$v", "a\nb", "a:b/c.d", "(a)", "[0 1]", "null", "0",
)  # fmt: skip
"""Values with characters that mean something to somebody."""


def let_through(allowed: dict[str, Any]) -> Filter:
    given: dict[str, Any] = {"tenant": "default", "now_ms": T0, **allowed}
    return Filter(**given)


def matching(index: Index, now_ms: int = T0, **allowed: Any) -> set[str]:
    """The ids of the documents that a filter lets through, all of which say "tea"."""
    item = let_through({"now_ms": now_ms, **allowed})
    names: set[str] = {name for _, name in index.every(item)}
    assert index.count(item) == len(names)
    assert {name for _, name in index.recorded_last(item, 100)} == names
    assert {name for _, name in index.most_recent(item, 100)} == names
    assert {name for _, name in index.saying(item, "tea", everywhere=True)} == names
    window = index.window(item, 0, 100)
    assert ({name for _, (_, name) in window.located}, window.total) == (names, len(names))
    assert sum(index.counts(item, "project").values()) == len(names)
    assert bool(index.nearest(item, T0)) == bool(names)
    for ranking in ("fused", "similarity", "rrf"):
        question = Question(text="tea", vector=None, mode="lexical", limit=100, now_ms=now_ms, ranking=ranking)
        assert {hit.id for hit in index.search(question, item)} == names
    return names


FILTERED: list[tuple[dict[str, dict[str, Any]], list[tuple[dict[str, Any], set[str]]]]] = [
    (
        {"mem_1": {"tenant": "default"}, "mem_2": {"tenant": "other"}},
        [({}, {"mem_1"}), ({"tenant": "other"}, {"mem_2"}), ({"tenant": "nobody"}, set()), ({"tenant": ""}, set())],
    ),
    (
        {"mem_1": {"tags": ["a", "b"]}, "mem_2": {"tags": ["b", "c"]}, "mem_3": {"tags": ["c", "a,b"]}},
        [
            ({"tags": ["b"]}, {"mem_1", "mem_2"}),
            ({"tags": ["b", "a"]}, {"mem_1"}),
            ({"tags": ["x"]}, set()),
            ({"any_tags": ["a", "c"]}, {"mem_1", "mem_2", "mem_3"}),
            ({"any_tags": ["a"]}, {"mem_1"}),
            ({"any_tags": ["x", "a,b"]}, {"mem_3"}),
            ({"tags": ["b"], "any_tags": ["c", "x"]}, {"mem_2"}),
            ({"any_tags": ["x"]}, set()),
        ],
    ),
    (  # an empty tag is a tag; a document without tags has none
        {"mem_1": {"tags": [""]}, "mem_2": {}},
        [({"tags": [""]}, {"mem_1"}), ({"any_tags": ["", "x"]}, {"mem_1"}), ({"without": [("tag", "")]}, {"mem_2"})],
    ),
    (  # no project given searches all; the empty project is one of its own
        {"mem_1": {"project": "atlas"}, "mem_2": {"project": "blue whale"}, "mem_3": {"project": ""}},
        [
            ({}, {"mem_1", "mem_2", "mem_3"}),
            ({"project": "blue whale"}, {"mem_2"}),
            ({"project": "blue"}, set()),
            ({"project": ""}, {"mem_3"}),
            ({"projects": ["", "atlas"]}, {"mem_1", "mem_3"}),
            ({"projects": ["", "atlas"], "project": "atlas"}, {"mem_1"}),
            ({"projects": ["x"]}, set()),
        ],
    ),
    *(
        (
            {"mem_1": {name: "ada"}, "mem_2": {name: "bob"}, "mem_3": {}},
            [({name: "ada"}, {"mem_1"}), ({name: "Ada"}, set()), ({name: ""}, {"mem_1", "mem_2", "mem_3"})],
        )
        for name in ("agent_id", "session_id", "user_id")
    ),
    *(
        (
            {"mem_1": {name: ["a", "b"]}, "mem_2": {name: ["b"]}, "mem_3": {}},
            [
                ({name: ["a"]}, {"mem_1"}),
                ({name: ["b", "x"]}, {"mem_1", "mem_2"}),
                ({name: ["x"]}, set()),
                ({name: []}, {"mem_1", "mem_2", "mem_3"}),
            ],
        )
        for name in ("types", "files", "concepts")
    ),
    (
        {"obs_1": {}, "mem_1": {}, "lsn_1": {}, "sum_1": {"kind": "summary"}},
        [
            ({"kinds": ["memory"]}, {"mem_1"}),
            ({"kinds": ["lesson", "observation"]}, {"lsn_1", "obs_1"}),
            ({"kinds": ["summary"]}, {"sum_1"}),
            ({"kinds": ["nothing"]}, set()),
        ],
    ),
    (
        {
            "mem_1": {"visibility": "public"},
            "mem_2": {"visibility": "private", "audience": ["ada"]},
            "mem_3": {"visibility": "shared", "audience": ["ada"]},
            "obs_1": {},
        },
        [
            ({"visibility": "public"}, {"mem_1"}),
            ({"visibility": "private"}, set()),
            ({"visibility": "private", "reader": "ada"}, {"mem_2"}),
            ({"visibility": "shared", "operator": True}, {"mem_3"}),
        ],
    ),
    (  # both ends of a span are in it; a document from before 1970 has a time, too
        {"mem_0": {"occurred_ms": -5}, **{f"mem_{n}": {"occurred_ms": T0 + n} for n in (1, 2, 3)}},
        [
            ({"from_ms": T0 + 1, "to_ms": T0 + 2}, {"mem_1", "mem_2"}),
            ({"from_ms": T0 + 2}, {"mem_2", "mem_3"}),
            ({"to_ms": T0 + 1}, {"mem_0", "mem_1"}),
            ({"from_ms": T0 + 2, "to_ms": T0 + 1}, set()),
            ({"from_ms": -10, "to_ms": 0}, {"mem_0"}),
            ({"from_ms": 0}, {"mem_1", "mem_2", "mem_3"}),
        ],
    ),
    (
        {"mem_1": {"importance": 0.3}, "mem_2": {"importance": 5.0}, "mem_3": {"importance": 10.0}},
        [
            ({"importance_to": 5.0}, {"mem_1", "mem_2"}),
            ({"importance_to": 0.3}, {"mem_1"}),
            ({"importance_to": 0.0}, set()),
            ({"importance_to": 10}, {"mem_1", "mem_2", "mem_3"}),
        ],
    ),
    (  # "" is a private memory without owner or agent: who asks without a name is not its reader
        {
            "mem_1": {"audience": ["ada", "bob"]},
            "mem_2": {"audience": ["eve"]},
            "mem_3": {},
            "mem_4": {"audience": [""]},
        },
        [
            ({}, {"mem_3"}),
            ({"reader": "ada"}, {"mem_1", "mem_3"}),
            ({"reader": "eve"}, {"mem_2", "mem_3"}),
            ({"reader": "nobody"}, {"mem_3"}),
            ({"operator": True}, {"mem_1", "mem_2", "mem_3", "mem_4"}),
            ({"operator": True, "reader": "eve"}, {"mem_1", "mem_2", "mem_3", "mem_4"}),
        ],
    ),
    (  # an isolated agent finds what it wrote, and of that what it may read
        {"mem_1": {"agent_id": "ada"}, "mem_2": {"agent_id": "bob"}, "mem_3": {"agent_id": "ada", "audience": ["bob"]}},
        [
            ({"only_agent": "ada", "reader": "ada"}, {"mem_1"}),
            ({"only_agent": "bob", "agent_id": "ada", "reader": "bob"}, set()),
            ({"only_agent": "ada", "operator": True}, {"mem_1", "mem_3"}),
        ],
    ),
    (  # a key for some projects
        {"mem_1": {"project": "atlas"}, "mem_2": {"project": "borealis"}, "mem_3": {"project": ""}},
        [
            ({"within": ["atlas", "borealis"]}, {"mem_1", "mem_2"}),
            ({"within": ["atlas"], "project": "borealis"}, set()),
            ({"within": ["atlas"], "projects": ["borealis", "atlas"]}, {"mem_1"}),
            ({"within": [""]}, {"mem_3"}),
        ],
    ),
    (
        {"mem_1": {"recorded_ms": T0, "retired_ms": T0 + 10}, "mem_2": {"recorded_ms": T0 + 10}},
        [
            ({}, {"mem_2"}),
            ({"as_of_ms": T0 - 1}, set()),
            ({"as_of_ms": T0}, {"mem_1"}),
            ({"as_of_ms": T0 + 9}, {"mem_1"}),
            ({"as_of_ms": T0 + 10}, {"mem_2"}),
        ],
    ),
    (  # what is retired, whoever may read it and however old
        {
            "mem_1": {"retired_ms": T0 + 10, "audience": ["ada"], "expires_ms": 1},
            "mem_2": {"retired_ms": 1, "recorded_ms": T0 + 10},
            "mem_3": {},
        },
        [
            ({"retired": True}, {"mem_1", "mem_2"}),
            ({"retired": True, "as_of_ms": T0}, {"mem_1", "mem_2"}),
            ({"retired": True, "kinds": ["lesson"]}, set()),
        ],
    ),
    (
        {"mem_1": {"tags": ["a"]}, "mem_2": {"files": ["a"], "agent_id": "bob"}, "mem_3": {}},
        [
            ({"any_of": [("tag", "a"), ("file", "a")]}, {"mem_1", "mem_2"}),
            ({"any_of": [("tag", "a"), ("agent", "x")]}, {"mem_1"}),
            ({"any_of": [("concept", "a")]}, set()),
            ({"without": [("tag", "a")]}, {"mem_2", "mem_3"}),
            ({"without": [("tag", "a"), ("agent", "bob")]}, {"mem_3"}),
            ({"without": [("tag", "x")]}, {"mem_1", "mem_2", "mem_3"}),
            ({"any_of": [("tag", "a"), ("file", "a")], "without": [("agent", "bob")]}, {"mem_1"}),
            ({"without": [("project", "atlas")]}, set()),
        ],
    ),
]
"""Documents of one text, and which of them are found under which filters."""


@pytest.mark.parametrize(("documents", "filters"), FILTERED)
async def test_a_filter_narrows(filled: Filled, documents: dict[str, Any], filters: list[Any]):
    for n, (name, fields) in enumerate(documents.items()):
        await filled.put(name, "green tea", partition=n % 2, **fields)
    index = await filled.settle()
    for allowed, names in filters:
        assert matching(index, **allowed) == names, allowed


async def test_what_has_expired_is_not_found_at_that_moment_and_after(filled: Filled):
    await filled.put("mem_1", "tea", expires_ms=T0 + 10)
    await filled.put("mem_2", "tea")
    index = await filled.settle()
    for now_ms, names in ((T0 + 9, {"mem_1", "mem_2"}), (T0 + 10, {"mem_2"}), (T0 + 11, {"mem_2"})):
        assert matching(index, now_ms) == names
        assert matching(index, T0 + 99, as_of_ms=now_ms) == names


async def test_embedded_says_whether_vectors_must_be_there_when_counting_and_listing_all(filled: Filled):
    for name in ("mem_1", "mem_2", "mem_3"):
        await filled.put(name, "tea")

    async def having(embedded: bool) -> set[str]:
        index, allowed = await filled.settle(), Filter(tenant="default", now_ms=T0, embedded=embedded)
        names: set[str] = {name for _, name in index.every(allowed)}
        assert index.count(allowed) == len(names)
        return names

    assert (await having(True), await having(False)) == (set(), {"mem_1", "mem_2", "mem_3"})
    await filled.embed("mem_1", [1, 0, 0, 0])
    assert (await having(True), await having(False)) == ({"mem_1"}, {"mem_2", "mem_3"})
    for name in ("mem_2", "mem_3"):
        await filled.embed(name, [1, 0, 0, 0])
    assert (await having(True), await having(False)) == ({"mem_1", "mem_2", "mem_3"}, set())


async def test_a_value_is_found_as_it_is_written_and_no_other_is(filled: Filled):
    for n, value in enumerate(ODD):
        await filled.put(
            f"mem_{n:02d}", "tea", project=value, agent_id=value, session_id=value, user_id=value, tags=[value],
            audience=[value], types=[value], files=[value], concepts=[value], visibility=value,
        )  # fmt: skip
    index = await filled.settle()
    for n, value in enumerate(ODD):
        filters: list[dict[str, Any]] = [
            *({name: value} for name in ("project", "agent_id", "session_id", "user_id", "only_agent", "visibility")),
            *({name: [value, value]} for name in ("tags", "any_tags", "types", "files", "concepts", "within")),
            {"any_of": [("tag", value), ("file", value)]},
        ]
        for allowed in filters:
            places = index.every(let_through({"operator": True, **allowed}))
            assert [name for _, name in places] == [f"mem_{n:02d}"], allowed
        assert matching(index, reader=value) == {f"mem_{n:02d}"}
        without = let_through({"operator": True, "without": [("tag", value)]})
        assert index.count(without) == index.window(without, 0, 1).total == len(ODD) - 1
    by_project = index.counts(let_through({"operator": True}), "project")
    assert by_project == dict.fromkeys(ODD, 1)


async def test_a_tenant_of_any_name_is_apart(filled: Filled):
    for n, value in enumerate(ODD):
        await filled.put(f"mem_{n:02d}", "tea", tenant=value)
    index = await filled.settle()
    assert [matching(index, tenant=value) for value in ODD] == [{f"mem_{n:02d}"} for n in range(len(ODD))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"tags": ["hot"]}, {"tags": ["cold"]}),
        ({"project": "atlas"}, {"project": "borealis"}),
        ({"agent_id": "ada"}, {"agent_id": "bob"}),
        ({"user_id": "ada"}, {"user_id": "bob"}),
        ({"types": ["semantic"]}, {"types": ["procedural"]}),
        ({"files": ["a.py"]}, {"files": ["b.py"]}),
        ({"concepts": ["x"]}, {"concepts": []}),
        ({"visibility": "private"}, {"visibility": "public"}),
    ],
)
async def test_a_changed_value_is_found_and_the_one_before_is_not(
    filled: Filled, before: dict[str, Any], after: dict[str, Any]
):
    await filled.put("mem_1", "tea", **before)
    assert matching(await filled.settle(), **before) == {"mem_1"}
    await filled.put("mem_1", "tea", **after)
    index = await filled.settle()
    assert matching(index, **after) == {"mem_1"}
    assert matching(index, **before) == set()


@pytest.mark.parametrize("hiding", [{"retired_ms": T0}, {"expires_ms": T0}, {"audience": ["ada"]}, {"tenant": "other"}])
async def test_what_hides_a_document_takes_effect_at_once_and_so_does_taking_it_back(
    filled: Filled, hiding: dict[str, Any]
):
    await filled.put("mem_1", "tea")
    await filled.put("mem_1", "tea", **hiding)
    assert matching(await filled.settle()) == set()
    await filled.put("mem_1", "tea")
    assert matching(await filled.settle()) == {"mem_1"}


WORDS = [
    "dog", "puppi", "bark", "car", "engin", "checkout", "webhook", "retri", "stripe", "lemon", "tea", "port", "6380",
    "deploy", "friday",
]  # fmt: skip
OWN = 40
READER = Filter(tenant="default", now_ms=T0, project="atlas", within=["atlas"], reader="ada")
UNREADABLE: dict[str, dict[str, Any]] = {
    "another tenant": {"tenant": "other"},
    "another project": {"project": "zeus"},
    "private memories": {"audience": ["eve"]},
}
QUESTIONS = (
    "checkout webhook retri", "which port did stripe use", "dog bark", "why did the deploy fail on friday",
    "chekcout webhok", "unicorn", "webhook",
)  # fmt: skip
"""With words that all say, that few say, that none says, and with slips."""


async def write(filled: Filled, seed: int, count: int, **fields: Any) -> None:
    random = Random(seed)
    for n in range(count):
        name, text = f"mem_{seed}{n:04d}", " ".join(random.choices(WORDS, k=random.randrange(2, 12)))
        await filled.put(name, text, partition=n % 2, recorded_ms=T0 + n, **fields)
        if n % 3:
            await filled.embed(name, [random.random() for _ in range(4)], partition=n % 2)


def answers(index: Index) -> dict[tuple[str, str, str], Sequence[Hit]]:
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    return {
        (text, mode, ranking): index.search(
            Question(text=text, vector=vector, mode=mode, ranking=ranking, limit=20, now_ms=T0, fold=True), READER
        )
        for text in QUESTIONS
        for mode in ("hybrid", "lexical", "vector")
        for ranking in ("fused", "similarity", "rrf")
    }


@pytest.mark.parametrize("whose", UNREADABLE)
async def test_documents_that_a_reader_cannot_read_change_nothing_of_its_answers(with_table: Filled, whose: str):
    await write(with_table, 1, OWN)
    before = answers(await with_table.settle())
    assert sum(map(len, before.values())) > 100
    for seed, count in ((2, 1), (3, 1), (4, 8), (5, 90)):
        await write(with_table, seed, count, **UNREADABLE[whose])
        await with_table.put(f"mem_{seed}x", "unicorn chekcout webhok " * 9, **UNREADABLE[whose])
        index = await with_table.settle()
        assert answers(index) == before
        assert index.counts(READER, "project") == {"atlas": OWN}
        assert index.linked_values(READER, "project", 9) == ["atlas"]


async def test_a_slip_is_corrected_to_the_readers_words_however_many_others_say_like_ones(with_table: Filled):
    for n in range(120):
        await with_table.put(f"mem_1{n:03d}", "checkouts checkouty chekcout", audience=["eve"])
    await with_table.put("mem_2", "the checkout is slow")
    index = await with_table.settle()
    (hit,) = index.search(Question(text="chekcout", vector=None, mode="lexical", now_ms=T0), READER)
    assert (hit.id, list(hit.terms)) == ("mem_2", ["checkout"])
