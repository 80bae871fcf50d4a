import pytest

from projections.condensing.llm.answers import (
    MAX_FILES,
    MAX_RELATIONS,
    MAX_STATEMENTS,
    CompressionReply,
    ExtractedRelation,
    GraphReply,
    SummaryReply,
    compression,
    graph,
    summary,
)


def test_an_answer_carries_its_model_and_prompt():
    kept = compression(CompressionReply("Build failed", "A header was missing."), "m", "compress/1")
    assert kept is not None
    assert (kept.title, kept.importance, kept.model, kept.prompt_version) == ("Build failed", 5, "m", "compress/1")


def test_length_and_number_are_bounded_whatever_the_model_said():
    many = [f"{n} " + "z" * 10_000 for n in range(1_000)]
    kept = compression(CompressionReply("t" * 10_000, "n" * 100_000, many, many, many), "m", "v")
    assert kept is not None
    assert (len(kept.title), len(kept.narrative)) == (120, 4_000)
    assert len(kept.facts) == MAX_STATEMENTS
    assert len(kept.files) == MAX_FILES
    assert max(map(len, (*kept.facts, *kept.files, *kept.concepts))) <= 512


def test_empty_and_repeated_lines_are_dropped_and_blanks_made_one():
    kept = summary(SummaryReply(" A\n title\0 ", " told ", ["", " ", "one  two", "one two"]), "m", "v")
    assert kept is not None
    assert (kept.title, kept.narrative, kept.decisions, kept.files) == ("A title", "told", ["one two"], [])


@pytest.mark.parametrize(("said", "kept"), [(-3, 1), (0.4, 1), (7.4, 7), (99, 10), (None, 5)])
def test_importance_is_one_to_ten(said: float | None, kept: int):
    reply = compression(CompressionReply("t", "n", importance=said), "m", "v")
    assert reply is not None
    assert reply.importance == kept


@pytest.mark.parametrize(("title", "narrative"), [("", "n"), ("t", " \n"), ("\0", "n")])
def test_an_answer_that_says_nothing_is_none(title: str, narrative: str):
    assert compression(CompressionReply(title, narrative), "m", "v") is None
    assert summary(SummaryReply(title, narrative), "m", "v") is None


def test_relations_are_distinct_whole_and_between_two_things():
    edges = [
        ExtractedRelation("Ada", "Works on", "atlas"),
        ExtractedRelation("Ada", "works_on", " atlas "),
        ExtractedRelation("Ada", "", "atlas"),
        ExtractedRelation("", "uses", "atlas"),
        ExtractedRelation("atlas", "is", "atlas"),
    ]
    assert graph(GraphReply(edges), "m", "v").relations == [ExtractedRelation("Ada", "works_on", "atlas")]


def test_relations_are_bounded_in_number():
    edges = [ExtractedRelation(f"thing {n}", "uses", "Redis") for n in range(1_000)]
    assert len(graph(GraphReply(edges), "m", "v").relations) == MAX_RELATIONS
