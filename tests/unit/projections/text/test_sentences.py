"""Sentences, accounts and headlines of observations, and the payloads of real tools."""

import json
import time
from pathlib import Path
from typing import Any, cast

import pytest
from condensing import asked, called, saw
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from projections.condensing.consolidation import facts_of, find_topics
from projections.condensing.summaries import digest
from projections.nouns.observation import Observation
from projections.queries.profile import profile
from projections.text.accounts import (
    HEADLINE_CHARS,
    account,
    failure,
    headline,
    is_call,
    prose,
    user_words,
)
from projections.text.compression import Compressed, compress
from projections.text.payloads import is_base64
from projections.text.sentences import (
    SCAN_CHARS,
    STATEMENT_CHARS,
    alike_groups,
    best,
    centrality,
    closed,
    distinct,
    fitting,
    leading,
    pieces,
    shortened,
    stated,
    statements,
    term_set,
)
from projections.text.similarity import jaccard
from projections.text.terms import snippet
from projections.text.words import TOOLS

DATA = json.loads(Path(__file__).with_name("sentences.json").read_text())

WORD_SETS = st.lists(st.frozensets(st.sampled_from("abcdefgh"), max_size=8), max_size=30)


def naive_groups(word_sets: list[frozenset[str]], threshold: float) -> list[list[int]]:
    """Every set compared with every leader."""
    groups: list[list[int]] = []
    for index, words in enumerate(word_sets):
        for group in groups:
            if jaccard(words, word_sets[group[0]]) >= threshold:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


@given(WORD_SETS, st.sampled_from([0.4, 0.5, 0.7, 1.0]))
def test_grouping_finds_what_comparing_all_pairs_finds(word_sets: list[frozenset[str]], threshold: float):
    assert alike_groups(word_sets, threshold) == naive_groups(word_sets, threshold)


def test_a_similarity_of_exactly_the_threshold_is_alike():
    seven_of_ten = frozenset("abcdefg"), frozenset("abcdefghij")
    assert distinct(seven_of_ten, 0.7) == [0]
    assert distinct(seven_of_ten, 0.71) == [0, 1]


def test_sets_without_words_are_all_kept():
    assert distinct([frozenset(), frozenset(), frozenset("a"), frozenset("a")]) == [0, 1, 2]


def test_grouping_thousands_of_different_sentences_is_fast():
    word_sets = [frozenset(f"word{n * step}" for step in range(1, 12)) | {"the", "and"} for n in range(5_000)]
    started = time.thread_time()
    assert len(alike_groups(word_sets, 0.7)) > 4_000
    assert time.thread_time() - started < 5


def test_a_piece_ends_at_a_full_stop_before_white_space_only():
    assert pieces(" See v1.2 of a.py!  Really?\nYes. ") == ["See v1.2 of a.py!", "Really?", "Yes."]


def test_list_items_are_statements_of_their_own_and_wrapped_lines_are_not():
    text = "# What was done\n- fixed the retry loop\n2. Raised the timeout,\nwhich was too low.\nUpdated the docs"
    assert statements(text) == [
        "What was done",
        "fixed the retry loop",
        "Raised the timeout, which was too low.",
        "Updated the docs",
    ]


def test_questions_code_and_short_answers_state_nothing():
    assert statements("Thanks!\nDid the deployment work?\n```\nwhile True: must_never()\n```\n") == []


@given(st.text(max_size=3 * SCAN_CHARS))
def test_a_statement_is_one_line_of_bounded_length(text: str):
    assert all(len(said) <= STATEMENT_CHARS and "\n" not in said for said in statements(text))


def test_a_cut_falls_between_words_and_shows():
    assert shortened("one two three four", 12) == "one two…"
    assert shortened("x" * 20, 5) == "xxxx…"
    assert shortened("  one\n two ", 12) == "one two"


def test_texts_that_say_the_same_are_kept_once_in_the_first_wording():
    texts = ["The deploy failed on the token.", "Deploys failed on that token", "Postgres is slow."]
    assert distinct([term_set(text) for text in texts]) == [0, 2]


def test_centrality_is_the_mean_frequency_of_the_terms():
    assert centrality([["a", "b"], ["a"], []]) == [1.5, 2.0, 0.0]
    assert centrality([["a", "b"], ["a"], []], at_least=4) == [0.75, 0.5, 0.0]


def test_the_leading_sentence_is_about_what_the_others_are_about():
    said = [
        ["Lunch was late again today.", "The queue lost its messages after the restart."],
        ["The queue restart lost three messages."],
    ]
    assert [sentence for _, sentence in leading(said)] == [said[0][1], said[1][0]]


def test_of_equally_good_ones_the_earlier_are_best_and_order_is_kept():
    assert best([1.0, 3.0, 1.0, 3.0], 3) == [0, 1, 3]
    assert best([1.0], 0) == []


@given(st.lists(st.text(max_size=9)), st.integers(0, 40))
def test_fitting_lines_stay_within_the_limit_when_joined(lines: list[str], limit: int):
    assert len(" ".join(fitting(lines, limit, " "))) <= limit


def test_a_number_that_ends_a_sentence_is_no_list_marker():
    assert statements("We shipped version v2. You must tag releases.") == [
        "We shipped version v2.",
        "You must tag releases.",
    ]


LEAVES = st.none() | st.booleans() | st.floats() | st.text(max_size=20)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=8)
NAMES = st.sampled_from(["tool_name", "tool_input", "tool_output", "error", "prompt", "hookType", "other"])
TRACEBACK = "Traceback (most recent call last)\n  File x\nKeyError: 'id'"


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (saw(0, "The build is green."), "The build is green."),
        (asked(0, " Fix the build "), "Fix the build"),
        (called(0, "Edit", {"file_path": "src/a.py", "old_string": "must never"}), "Edit `src/a.py`"),
        (called(0, "Bash", {"command": "make `all`"}), "Bash `make 'all'`"),
        (called(0, "Bash", '{"command": "make"}', error=TRACEBACK), "Bash `make` failed: KeyError: 'id'"),
        (called(0, "Bash", '{"command": "ma', error="killed\nsorry"), "Bash `ma` failed: killed"),
        (called(0, "Stop", {}), "Stop"),
        (called(0, "conversation", "Which port?", "It listens on 3111."), "Which port?\nIt listens on 3111."),
        (saw(0, data={"hookType": "subagent_stop", "last_message": "Done with it."}), "Done with it."),
        (saw(0, data={"tool": "deploy", "code": 3}), "tool: deploy, code: 3"),
        (saw(0, "raw", narrative="A model said this.", model="gpt"), "A model said this."),
        (saw(0), "observation"),
    ],
)
def test_a_summary_account_says_what_happened(observation: Observation, expected: str):
    assert account(observation) == expected


def test_a_tool_call_is_no_prose():
    assert prose(called(0, "Edit", {"file_path": "src/a.py"}, "always ok")) == ""


def test_only_a_turn_of_the_user_has_words_of_the_user():
    assert user_words(asked(0, "Fix it")) == "Fix it"
    assert user_words(saw(0, "Fix it", kind="conversation")) == ""


def test_a_call_that_failed_is_not_bare():
    assert is_call("Edit `src/a.py`.")
    assert is_call("ada: Bash `make all`")
    assert is_call("Bash `make` failed: no rule")
    assert is_call("exec_command `cargo test --lib`: test result: FAILED.")
    assert not is_call("The `gateway` restarts after a deploy.")


@given(st.dictionaries(NAMES, JSON))
def test_no_data_makes_it_fail(data: dict[str, Any]):
    assert account(saw(0, data=data))


@pytest.mark.parametrize(
    ("tool", "given", "output", "wanted"),
    DATA["calls"],
)
def test_a_call_is_told_by_what_it_worked_on_and_how_it_went(tool: str, given: Any, output: Any, wanted: str):
    assert headline(called(0, tool, given, output)) == wanted


def test_a_failed_call_says_why():
    failed = called(0, "Bash", {"command": "make"}, error="make: *** No rule to make target 'x'.")
    assert headline(failed) == "Bash `make` failed: make: *** No rule to make target 'x'."


@pytest.mark.parametrize(
    ("output", "wanted"),
    DATA["outcomes"],
)  # fmt: skip
def test_a_failure_is_told_by_the_line_that_says_why(output: str, wanted: str):
    assert failure(output) == wanted


OUTPUT = st.lists(st.sampled_from(["FAILED ", "1 failed", "error: ", "E   ", "\n", "exit code 1", "____ ", "İ", "x"]))


@given(OUTPUT.map("".join))
def test_no_output_makes_it_fail_and_a_reason_is_short(output: str):
    assert len(failure(output)) <= HEADLINE_CHARS


def test_what_a_command_lists_is_no_failure_of_its_own():
    assert headline(called(0, "Bash", {"command": "cd api && grep -rn error . 2>&1"}, "a.py:3: error: x")) == (
        "Bash `cd api && grep -rn error .`"
    )


def test_a_long_command_leaves_room_for_its_outcome():
    failed = called(
        0, "Bash", {"command": f"pytest {'tests/some_module ' * 20} -q 2>&1 | tail -5"}, "E   assert 3 == 4\n1 failed"
    )
    assert headline(failed).endswith("…`: 1 failed: assert 3 == 4")


def test_what_was_said_is_told_by_its_first_sentence():
    assert headline(asked(0, "Please fix the login. Then the tests.")) == "Please fix the login."
    assert headline(saw(0, "We decided to use Kafka. It scales.")) == "We decided to use Kafka."
    assert headline(saw(0, "ok")) == "ok"


def test_a_headline_is_one_short_line():
    long = headline(called(0, "Bash", {"command": "x" * 5_000}, "1 failed\n" * 5_000))
    assert len(long) <= HEADLINE_CHARS
    assert "\n" not in long


Call = tuple[str, str, Any, str]
CALLS: list[Call] = [tuple(row) for row in json.loads(Path(__file__).with_name("tool_payloads.json").read_bytes())]
"""Agent and tool, the tool's name, input and output."""
NEVER = TOOLS | {
    "in_progress", "use_default", "editor_ai", "files_with_matches", "general-purpose", "begin patch", "end patch",
    "update file", "group pgid",
}  # fmt: skip
"""States and frames of tools."""


def field_names(value: Any) -> set[str]:
    """The names of all fields in a value, also of JSON text in it, lower-cased."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return set()
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {name.lower() for name in fields}.union(*map(field_names, fields.values()))
    if isinstance(value, list):
        return set[str]().union(*map(field_names, cast(list[Any], value)))
    return set()


FIELDS = set[str]().union(*(field_names(given) | field_names(answered) for _, _, given, answered in CALLS))
UNSAID = FIELDS | NEVER


def check(short: Compressed) -> None:
    for concept in short.concepts:
        assert concept not in UNSAID
        assert not concept.startswith("-")
        assert not is_base64(concept)
    for fact in short.facts:
        assert not fact.startswith(("-", "+", "{", "***"))
        assert not {word.strip(":\"',") for word in fact.split()} & {
            "oldString",
            "newString",
            "originalFile",
            "isImage",
        }
        assert not any(map(is_base64, fact.split()))
        assert " -" not in fact
    assert len(set(short.facts)) == len(short.facts)


@pytest.mark.parametrize("call", CALLS, ids=[call[0] for call in CALLS])
@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_no_key_flag_or_base64_of_a_tool_is_a_concept_or_a_fact(call: Call, as_text: bool):
    _, tool, given, answered = call
    data = {"tool_name": tool, "tool_input": json.dumps(given) if as_text else given, "tool_output": answered}
    check(compress("post_tool_use", "", data))


def used(as_text: bool) -> list[Observation]:
    """All calls, four times over."""
    return [
        saw(
            n,
            kind="post_tool_use",
            data={"tool_name": tool, "tool_input": json.dumps(given) if as_text else given, "tool_output": answered},
        )
        for n, (_, tool, given, answered) in enumerate(CALLS * 4)
    ]


SAID = [saw(900 + n, f"The `checkout` charged card {n} twice.") for n in range(3)]


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_what_tools_answer_again_and_again_is_no_topic_beside_what_was_said(as_text: bool):
    seen = [*used(as_text), *SAID]
    important = [replace(one, importance=5) for one in seen]
    assert [topic.concept for topic in find_topics(important, max_topics=100)] == ["checkout"]
    told = profile("shop", "", 1, seen, [], SAID[0].occurred_at)
    assert told is not None
    assert told.concepts == [("checkout", 3)]


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_what_tools_answer_in_every_session_is_no_fact_beside_what_was_said(as_text: bool):
    calls, said = used(as_text), saw(900, "We decided that the checkout sends an order id with every charge.")
    sessions = [digest([*calls[n : n + len(CALLS)], said]) for n in range(0, len(calls), len(CALLS))]
    found = facts_of([one for one in sessions + sessions if one is not None])
    assert [one.content for one in found] == [said.content]


@pytest.mark.parametrize(
    ("call", "file"),
    [("claude edit", "/repo/src/checkout.py"), ("cursor read", "src/app.tsx"), ("gemini read", "/repo/main.go")],
)
def test_the_file_of_a_call_is_known_by_every_agents_name_for_it(call: str, file: str):
    _, tool, sent, answered = next(one for one in CALLS if one[0] == call)
    data = {"tool_name": tool, "tool_input": sent, "tool_output": answered}
    assert compress("post_tool_use", "", data).files == (file,)


def test_what_tools_found_is_still_told():
    facts: list[str] = []
    for _, tool, sent, answered in CALLS:
        facts += compress("post_tool_use", "", {"tool_name": tool, "tool_input": sent, "tool_output": answered}).facts
    for said in (
        "1 failed, 12 passed in 1.40s", "The limit is 100 requests a minute.", "expected 200, got 500",
        "2 passed; 1 failed", "Cookies are set in server/auth/cookie.go by SetSession.",
    ):  # fmt: skip
        assert said in facts


def test_a_bulleted_list_is_no_patch():
    assert compress("note", "- We use Postgres 16\n- Deploys are on Tuesdays").facts != ()


CHINESE = "我们把超时改成20秒。为什么？因为店里的网络很慢！「好的。」他说端口是8061。"


def test_sentences_of_chinese_and_japanese_end_without_a_space():
    assert pieces(CHINESE) == [
        "我们把超时改成20秒。",
        "为什么？",
        "因为店里的网络很慢！",
        "「好的。」他说端口是8061。",
    ]
    assert stated(CHINESE) == [sentence for sentence in pieces(CHINESE) if sentence != "为什么？"]
    assert compress("message", CHINESE).title == "我们把超时改成20秒。"
    assert compress("message", CHINESE).facts[0] == "我们把超时改成20秒。"
    assert closed("ポートは8061です。") == "ポートは8061です。"
    assert snippet("很慢！" * 99 + CHINESE * 9, ["端口"], 120).startswith("…「好的。」他说端口是8061。")
