import json
from pathlib import Path

from api.importing.transcripts import TRANSCRIPT, Turn, brain, conversations, folder_of, turns


def line(kind: str, content: str) -> str:
    return json.dumps({"type": kind, "content": content})


def test_a_prompt_is_paired_with_the_next_answer():
    said = [
        line("USER_INPUT", "<USER_REQUEST>\nfix it\n</USER_REQUEST><META>noise</META>"),
        line("TOOL_CALL", "ls"),
        line("PLANNER_RESPONSE", "done"),
        line("PLANNER_RESPONSE", "and more"),
        line("USER_INPUT", "never answered"),
        line("USER_INPUT", "again"),
        "no json",
        line("PLANNER_RESPONSE", "yes"),
    ]
    assert list(turns(said)) == [Turn("fix it", "done"), Turn("again", "yes")]


def test_text_is_found_where_other_versions_put_it():
    said = [
        json.dumps({"step_type": "user_input", "message": {"text": "hello"}}),
        json.dumps({"step_type": "planner_response", "response": "hi"}),
    ]
    assert list(turns(said)) == [Turn("hello", "hi")]


def test_the_folder_is_what_the_first_line_maps():
    mapped = "in the format [URI] -> [CorpusName]:\n/home/ada/shop -> ada/shop\nCode relating"
    assert folder_of(line("USER_INPUT", mapped)) == "/home/ada/shop"
    assert folder_of(line("USER_INPUT", "[/home/ada/shop] -> [ada/shop]")) == "/home/ada/shop"
    assert folder_of(line("USER_INPUT", "file:///home/ada/shop -> ada/shop")) == "/home/ada/shop"
    assert folder_of(line("USER_INPUT", "a -> b")) == ""


def test_conversations_are_folders_with_a_transcript(tmp_path: Path):
    for name in ("b0a1c2d3-e4f5-a6b7-c8d9", "empty"):
        (brain(tmp_path) / name).mkdir(parents=True)
    path = brain(tmp_path) / "b0a1c2d3-e4f5-a6b7-c8d9" / TRANSCRIPT
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([line("USER_INPUT", "x"), line("PLANNER_RESPONSE", "y")]))
    (found,) = conversations(brain(tmp_path))
    assert (found.session_id, found.turns) == ("antigravity_b0a1c2d3_e4f5_a6b7", [Turn("x", "y")])
    assert list(conversations(brain(tmp_path), "other")) == []
