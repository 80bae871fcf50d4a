"""Conversations of both shapes become observations and questions, and answers become recall@k."""

from typing import Any

from benchmarks.relevance import OVERALL, Question, events_of, figures_of, questions

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


def test_a_turn_of_a_chat_is_an_observation_with_speaker_caption_and_time():
    first, second = events_of(CHAT, "run")
    assert first["content"] == "Ana: Look! [a boat]"
    assert (first["agent_id"], first["session_id"], first["project"]) == ("Ana", "c1:1", "run:c1")
    assert [first["occurred_at"], second["occurred_at"]] == ["2023-05-08T13:56:00+00:00", "2023-05-08T13:56:01+00:00"]
    assert first["metadata"] == {"turn": "D1:1"}


def test_a_turn_of_work_is_an_observation_with_kind_agent_and_time():
    _, second = events_of(WORK, "run")
    assert (second["content"], second["kind"], second["agent_id"]) == ("fixed", "result", "swe")
    assert second["occurred_at"] == "2024-06-03T10:07:30+00:00"


def test_questions_without_evidence_and_of_the_adversarial_category_are_left_out():
    assert questions(CHAT) == [Question("c1", "What did Ana show?", "single-hop", frozenset({"D1:1", "D1:2"}))]
    assert [one.category for one in questions(WORK)] == ["fact"]


def test_categories_whose_evidence_is_most_of_a_chat_are_told_apart():
    asked = [Question("w1", "?", category, frozenset({"m1"})) for category in ("fact", "fact", "summarization")]
    shares = [{5: 1.0, 10: 1.0, 20: 1.0}, {5: 0.0, 10: 1.0, 20: 1.0}, {5: 0.0, 10: 0.0, 20: 0.0}]
    figures = figures_of(asked, shares)
    assert figures[OVERALL] == {"questions": 2, "recall@5": 50.0, "recall@10": 100.0, "recall@20": 100.0}
    assert figures["summarization"]["questions"] == 1
    assert list(figures) == [OVERALL, "w1", "fact", "summarization"]
