"""What benchmarks write, how they sum up what they measure, and the table they print."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import parse_options, words_of
from benchmarks.corpus import LENGTH, mixed, observation, question, text
from benchmarks.driving import Load, batches_of, percentile
from benchmarks.figures import BENCHMARKS, Benchmark, Figures, Row, benchmark, table, written
from benchmarks.relevance import CUTS, OVERALL, Question, answerable, events_of, figures_of, histories, questions
from ingest.secrets.scrub import scrub_text

CHAT: dict[str, Any] = {
    "sample_id": "c1",
    "sessions": [
        {"session": 1, "date_time": "1:56 pm on 8 May, 2023", "turns": [
            {"dia_id": "D1:1", "speaker": "Ana", "text": "Look!", "blip_caption": "a boat"},
            {"dia_id": "D1:2", "speaker": "Ben", "text": "Nice."}]},
    ],
    "qa": [
        {"question": "What did Ana show?", "evidence": ["D1:1; D1:2", "D9:9"], "category": 4},
        {"question": "What was never said?", "evidence": ["D1:1"], "category": 5},
        {"question": "Where is no evidence?", "evidence": ["D9:9"], "category": 1},
    ],
}  # fmt: skip
WORK: dict[str, Any] = {
    "sample_id": "w1",
    "sessions": [
        {"session": "run-1", "date_time": "2024-06-03T10:07:00Z", "agent": "swe", "turns": [
            {"id": "S1:1", "kind": "prompt", "actor": "user", "text": "Fix it"},
            {"id": "S1:2", "kind": "result", "actor": "tool", "text": "fixed"}]},
    ],
    "qa": [{"question": "What became of it?", "evidence": ["S1:2"], "category": "fact"}],
}  # fmt: skip


def test_a_number_always_gives_the_same_text():
    """In another process, too: figures of two runs are of the same texts."""
    assert text(7).startswith("The buffer of search fails with SerializationFailure in middleware_lodafaga. It happens")
    assert mixed("run", 11) == mixed("run", 11)


def test_texts_differ_and_keep_bringing_new_words():
    """Caches of words and of vectors must not make a benchmark faster than life."""
    texts = [text(number) for number in range(2_000)]
    words = [set(re.findall(r"[a-z]+", text.lower())) for text in texts]
    first, second = set[str]().union(*words[:1_000]), set[str]().union(*words[1_000:])
    assert len(set(texts)) == len(texts)
    assert len(first) > 2_000
    assert len(second - first) > 1_000


def test_a_text_is_some_550_characters():
    lengths = [len(text(number)) for number in range(500)]
    assert min(lengths) >= LENGTH
    assert max(lengths) < LENGTH + 120
    assert len(json.dumps(observation("run", 1))) < 1_000


def test_no_text_is_altered_by_the_removal_of_secrets():
    """Else what was written could not be compared with what was found."""
    assert [number for number in range(500) if scrub_text(text(number)) != text(number)] == []


def test_a_question_names_what_the_beginning_of_its_text_names():
    for number in range(50):
        names = re.findall(r"\w*[_/-]\w+|[A-Z][a-z]+ (?:Ltd|AG|Labs|Group)", question(number))
        assert all(name in text(number) for name in names)


def test_of_twenty_mixed_events_one_is_of_each_kind_that_is_kept():
    kinds = Counter(mixed("run", number)["type"] for number in range(20))
    assert kinds == {"observe": 16, "remember": 1, "lesson": 1, "slot": 1, "action": 1}


def test_a_session_has_one_project_and_one_agent():
    events = [observation("run", number) for number in range(4_000)]
    places = {(event["session_id"], event["project"], event["agent_id"]) for event in events}
    assert len(places) == len({event["session_id"] for event in events})


def test_a_percentile_is_one_of_the_values():
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.50) == 51
    assert percentile(values, 0.99) == 100
    assert percentile(values, 1.0) == 100
    assert percentile([3.0], 0.99) == 3.0


def test_a_percentile_of_nothing_is_no_number():
    assert math.isnan(percentile([], 0.5))


def test_a_load_tells_its_rate_and_its_percentiles():
    load = Load(times=[1.0, 2.0, 3.0, 4.0], refused=1, seconds=2.0)
    assert load.figures("ask") == {"ask_per_s": 2.0, "ask_p50_ms": 3.0, "ask_p99_ms": 4.0}


def test_batches_hold_every_event_once_and_the_last_may_be_smaller():
    events = [{"n": number} for number in range(7)]
    assert [len(batch) for batch in batches_of(events, 3)] == [3, 3, 1]
    assert [event for batch in batches_of(events, 3) for event in batch] == events
    assert list(batches_of([], 3)) == []


def test_a_turn_of_a_chat_is_an_observation_with_speaker_caption_and_time():
    first, second = events_of(CHAT, "run")
    assert first["content"] == "Ana: Look! [a boat]"
    assert (first["agent_id"], first["session_id"], first["project"]) == ("Ana", "c1:1", "run:c1")
    assert [first["occurred_at"], second["occurred_at"]] == ["2023-05-08T13:56:00+00:00", "2023-05-08T13:56:01+00:00"]
    assert first["metadata"] == {"turn": "D1:1"}


def test_a_turn_of_work_is_an_observation_with_kind_agent_and_time():
    _, second = events_of(WORK, "run")
    assert (second["content"], second["kind"], second["agent_id"]) == ("fixed", "result", "tool")
    assert second["occurred_at"] == "2024-06-03T10:07:30+00:00"


def test_questions_without_evidence_and_of_the_adversarial_category_are_left_out():
    shown = Question("c1", "What did Ana show?", "single-hop", frozenset({"D1:1", "D1:2"}))
    assert answerable(questions(CHAT)) == [shown]
    assert [question.category for question in answerable(questions(WORK))] == ["fact"]


def test_a_turn_that_answers_in_place_of_the_evidence_counts_as_all_of_it():
    question = Question("c1", "Which port?", "fact", frozenset({"a", "b"}), frozenset({"c"}))
    assert [question.share(found) for found in (["a"], ["c"], ["d"], ["b", "a"])] == [0.5, 1.0, 0.0, 1.0]


def test_the_coding_life_is_what_hooks_record_of_it():
    (tillpoint, *others) = histories(Path(__file__).parents[3] / "benchmarks" / "data" / "life", "run")
    assert [history.name for history in (tillpoint, *others)] == ["tillpoint", "fjord", "ledgerline"]
    event = next(event for event in tillpoint.events if event["metadata"]["turn"] == "s01-02")
    assert event["data"]["prompt"].startswith("morning. the card terminal calls")
    assert (event["agent_id"], event["occurred_at"]) == ("mira", "2026-03-02T08:08:32Z")
    turns = {event["metadata"]["turn"] for history in (tillpoint, *others) for event in history.events}
    asked = [question for history in (tillpoint, *others) for question in history.questions]
    assert all(question.evidence <= turns for question in asked)
    assert {question.category for question in asked if not question.evidence} == {"never_said"}


def test_categories_whose_evidence_is_most_of_a_chat_are_told_apart():
    asked = [Question("w1", "?", category, frozenset({"m1"})) for category in ("fact", "fact", "summarization")]
    shares: list[dict[int, float]] = [
        dict.fromkeys(CUTS, 1.0),
        {1: 0.0, 5: 0.0, 10: 1.0, 20: 1.0},
        dict.fromkeys(CUTS, 0.0),
    ]
    figures = figures_of(asked, shares)
    recall = {"recall@1": 50.0, "recall@5": 50.0, "recall@10": 100.0, "recall@20": 100.0}
    assert figures[OVERALL] == {"questions": 2} | recall
    assert figures["summarization"]["questions"] == 1
    assert list(figures) == [OVERALL, "w1", "fact", "summarization"]


def _lines(figures: Figures, *rows: Row, **more: Any) -> list[str]:
    """The lines of the table, without its head."""
    asking = Benchmark("asking", dict, rows, {}, {}, needs_data=False, apart=False, long=False)
    return table({"asking": figures}, {"asking": asking}, **more).splitlines()[2:]


def test_a_row_has_the_figure_its_bar_and_the_raw_limit():
    row = Row("single writes", "single_per_s", "/s", at_least=5_000, raw="hello_per_s", raw_name="uvicorn hello")
    line = "| single writes | 2,500/s (missed) | >= 5,000/s | uvicorn hello 10,000/s | 0.25 |"
    assert _lines({"single_per_s": 2_500, "hello_per_s": 10_000}, row) == [line]


@pytest.mark.parametrize(("value", "missed"), [(0.5, False), (0.6, True), (0.4, False)])
def test_a_bar_is_met_by_its_own_value(value: float, missed: bool):
    assert Row("ratio", "ratio", at_most=0.5).missed(value) is missed
    assert Row("ratio", "ratio", at_least=0.5).missed(1 - value) is missed


def test_a_figure_that_was_not_measured_has_no_row():
    assert _lines({"other": 1}, Row("it", "it")) == []


def test_figures_without_a_row_are_listed_by_their_keys_where_asked_for():
    figures = {"it": 1, "nested": {"a": 2, "b": "c"}}
    assert _lines(figures, Row("it", "it"), rest=True) == [
        "| it | 1 |  |  |  |", "| asking: nested.a | 2 |  |  |  |", "| asking: nested.b | c |  |  |  |"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [(33_123.4, "/s", "33,123/s"), (0.5, "", "0.5"), (9.1234, "ms", "9.12 ms"), (72.55, "%", "72.5%"), (0, "s", "0 s")],
)
def test_figures_have_three_significant_digits(value: float, unit: str, expected: str):
    assert written(value, unit) == expected


def test_options_are_the_parameters_of_the_chosen_benchmarks_and_survive_another_command_line():
    @benchmark(name="testing")
    def declared(events: int = 3, share: float = 0.5, sizes: tuple[int, ...] = (1,), now: bool = False) -> Figures:
        """Does it work?

        More about it.
        """
        return {"events": events, "share": share, "sizes": sizes, "now": now}

    try:
        it = BENCHMARKS["testing"]
        assert (it.question, it.options) == ("Does it work?", {"events": 3, "share": 0.5, "sizes": (1,), "now": False})
        given = ["--events", "7", "--share", "0.25", "--sizes", "1", "2", "--now"]
        options = parse_options(["testing"], given)
        assert options == {"events": 7, "share": 0.25, "sizes": [1, 2], "now": True}
        assert words_of(options, list(it.options)) == given
    finally:
        del BENCHMARKS["testing"]
    assert declared(2)["events"] == 2


def test_no_row_has_two_bars_and_every_key_is_named_once():
    for it in BENCHMARKS.values():
        assert [row.figure for row in it.rows if row.at_least is not None and row.at_most is not None] == []
        assert len({row.key for row in it.rows}) == len(it.rows)
