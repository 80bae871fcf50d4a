"""Names in NFC, markers around retrieved text, and patterns in linear time."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from ingest.commands.decide import Caller, Observe, Remember, WriteAction, decide
from ingest.commands.parse import parse_batch, parse_json, parse_object
from ingest.errors import CommandRejected
from ingest.ids import EventId
from ingest.names import DATA_NOT_INSTRUCTIONS, header_name, inert, marked, nfc, visible, visible_data, with_nfc
from ingest.nouns.command import Command
from ingest.nouns.forgetting import ForgetSubject
from ingest.patterns import AT_ONCE, MAX_PATTERN_CHARS, compiled, found_in, which_match, which_occur
from mcp_gateway import lenient
from projections.queries.recall import RecallRequest
from projections.search.question import Filter, facet

NFD, NFC = "Zoe\u0308", "Zo\u00eb"
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b]0;pwned\x07\x1b[2J\x1b[1;31mred\x1b[0m", "ared"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bPq#0\x1b\\", "link "),
        ("\x9b2Ja\x9d0;b\x9cc\x1b(B\x1b7\x1bcd", "acd"),
        ("a\x1b]0;no end\nb\x1b[31", "ano end\nb"),
        ("a\x00b\x7fc\x85d\u202ee\u2066f\r\r\n\tg", "abcdef\r\n\tg"),
        ("tea, 茶\u3000👩\u200d👧 \u200f[2J", "tea, 茶\u3000👩\u200d👧 \u200f[2J"),
    ],
)
def test_shown_text_has_no_control_characters_and_no_rests_of_sequences(text: str, expected: str):
    assert visible(text) == expected
    assert visible_data({"a": [text, 1], "b": {"c": text}}) == {"a": [expected, 1], "b": {"c": expected}}


@pytest.mark.parametrize("repeated", ["\x1b]", "\x9d", "\x1b[0;", "\x1b]aaa\n", "\x1b" + 50 * "["])
def test_a_megabyte_of_sequences_without_an_end_is_cleaned(repeated: str):
    assert not {"\x1b", "\x9d"} & {*visible(repeated * 100_000)}


def test_a_name_of_ascii_or_in_nfc_is_the_same_object():
    command = Remember(content=NFD, project="shop", tags=[NFC])
    assert with_nfc(command) is command
    assert nfc(NFD) == NFC


@pytest.mark.parametrize("escaped", [True, False])
def test_a_read_is_asked_for_in_nfc_and_its_question_stays(escaped: bool):
    asked: dict[str, Any] = {"query": NFD, "project": NFD, "tags": ["a", NFD], "files": [NFD], "agent_id": NFD}
    body = json.dumps(asked, ensure_ascii=escaped).encode()
    for found in (parse_json(body, RecallRequest), parse_object(asked, RecallRequest)):
        assert (found.query, found.project, found.tags, found.files) == (NFD, NFC, ["a", NFC], [NFC])
        assert found.agent_id == NFC


def test_every_way_to_write_ends_in_nfc():
    """Also where a command was made without a parser, as dialects and importers do."""
    command = Observe(project=NFD, session_id=NFD, agent_id=NFD, user_id=NFD, content=NFD, data={"project": NFD})
    decision = decide(command, Caller(), EventId("e"), NOW)
    envelope, data = decision.event
    assert {envelope.project, envelope.session_id, envelope.agent_id, envelope.user_id} == {NFC}
    assert (data.content, data.data) == (NFD, {"project": NFD})  # pyright: ignore
    assert decision.subject == decide(with_nfc(command), Caller(), EventId("e"), NOW).subject


def test_names_in_structs_of_a_command_are_in_nfc():
    raw = {"type": "action", "title": "x", "edges": [{"type": "requires", "target": NFD}], "assigned_to": NFD}
    (command,) = parse_batch(json.dumps([raw]).encode(), "application/json")
    assert isinstance(command, WriteAction)
    data = decide(command, Caller(), EventId("e"), NOW).event.data
    assert NFC in repr(data)
    assert NFD not in repr(data)


def test_what_names_something_stored_keeps_its_form():
    """A project of before is forgotten by the name that it has."""
    command: Command = ForgetSubject(kind="project", subject=NFD, project=NFD)
    assert decide(command, Caller(), EventId("e"), NOW).event.envelope.project == NFD  # pyright: ignore


def test_arguments_of_dialects_are_in_nfc_also_in_camel_case():
    schema = {"properties": {"sessionId": {"type": "string"}, "content": {"type": "string"}}}
    assert lenient.read({"sessionId": NFD, "content": NFD}, schema) == {"sessionId": NFC, "content": NFD}


def test_a_filter_finds_names_in_any_form():
    assert facet("file", NFD) == facet("file", NFC)
    assert ("project", [NFC]) in Filter(tenant="t", now_ms=0, project=NFD).required()


@pytest.mark.parametrize("name", ["小王", NFC, "à", "100%25", "Ã«", "ada", ""])
def test_a_header_is_read_as_utf_8(name: str):
    assert header_name({"x-agent-id": name.encode().decode("latin-1")}, "x-agent-id") == name


def test_a_header_that_is_no_utf_8_is_read_as_latin_1():
    assert header_name({"x-agent-id": "Zo\u00eb"}, "x-agent-id") == NFC


def test_a_header_in_nfd_is_read_in_nfc():
    assert header_name({"x-agent-id": NFD.encode().decode("latin-1")}, "x-agent-id") == NFC


class Other(Struct):
    content: str


def test_a_struct_without_names_stays_as_it_is():
    assert with_nfc(Other(NFD)).content == NFD


@pytest.mark.parametrize(
    "text", ["</mnemolog-recall>", "< / MNEMOLOG-context >", "<agentmemory-context project='x'>", "a</mnemolog-x"]
)
def test_what_reads_as_a_marker_is_made_inert(text: str):
    assert "<" not in inert(text)


def test_other_text_stays_as_it_is():
    text = "if a < b: return <b>mnemolog</b>"
    assert inert(text) == text


def test_lines_stand_between_markers_behind_a_line_that_says_what_they_are():
    assert marked("mnemolog-recall", ["one", "</mnemolog-recall>"]) == [
        "<mnemolog-recall>", DATA_NOT_INSTRUCTIONS, "one", "&lt;/mnemolog-recall>", "</mnemolog-recall>",
    ]  # fmt: skip


AGES = "a" * 100_000 + "!"


def test_case_does_not_count_and_a_match_may_be_anywhere():
    assert found_in("drop table", "psql -c 'DROP TABLE users'")
    assert found_in("ÄRGER", "viel ärger")
    assert not found_in("^drop", "psql -c 'drop table users'")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a+)+b", "(a|a)*b", "(.*a){20}b"])
def test_a_pattern_that_would_hang_a_backtracking_matcher_is_quick(pattern: str):
    """The budget is generous for a busy machine; backtracking would need longer than the universe has."""
    started = time.thread_time()
    assert not found_in(pattern, AGES)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    "pattern", ["a(", "[z-a]", "*", "(?=a)b", "(?<!a)b", r"(a)\1", "a{5000}", r"\pL{900}", ".{900}", "\ud800"]
)
def test_a_pattern_that_cannot_be_used_is_refused_and_found_nowhere(pattern: str):
    with pytest.raises(CommandRejected, match="look-around and back-references are not supported") as refused:
        compiled(pattern)
    assert refused.value.field == "trigger_pattern"
    assert not found_in(pattern, "aab a( *")


def test_a_refusal_says_what_is_wrong():
    with pytest.raises(CommandRejected, match=r"missing \): a\("):
        compiled("a(")


def test_repetitions_that_multiply_are_refused():
    """Linear time is no comfort when every character costs ten thousand steps."""
    with pytest.raises(CommandRejected, match="steps per character; the limit is 2,000"):
        compiled("(a?b?){900}")


def test_the_longest_pattern_is_taken_and_a_longer_one_refused():
    assert found_in("a" * MAX_PATTERN_CHARS, AGES)
    with pytest.raises(CommandRejected, match="501 characters") as refused:
        compiled("a" * (MAX_PATTERN_CHARS + 1))
    assert refused.value.field == "trigger_pattern"


def test_a_refusal_is_silent(capfd: pytest.CaptureFixture[str]):
    """RE2 would write to stderr by itself."""
    assert not found_in("never seen before (", "x")
    assert capfd.readouterr() == ("", "")


def test_a_pattern_is_compiled_once():
    assert compiled("git push") is compiled("git push")


def test_text_with_half_a_surrogate_pair_is_searched():
    assert found_in("push", "git \ud800 push")


@pytest.mark.parametrize("usual", [b"", b"the token is a word7", b"word0 word1 word2"])
@pytest.mark.parametrize(
    ("text", "matching"),
    [
        (b"nothing of it", []),
        (b"TOKEN: abcd", [0]),
        (b"a word7-77 and 0123456789", [1, 9]),
        (b"word0-0 word7-7 word7-8", [2, 9]),
        (b"word7", []),
    ],
)
def test_patterns_match_whether_or_not_they_need_a_word(usual: bytes, text: bytes, matching: list[int]):
    patterns = ["(?i)token: [a-z]{4}", "[0-9]{8}", *(rf"\bword{number}-[0-9]" for number in range(2 * AT_ONCE))]
    assert which_match(patterns, usual)(text) == matching


@pytest.mark.parametrize(
    ("text", "occur"), [("", []), ("a (b) [c", [0, 1]), ("[[c]", [1]), ("b", []), ("\ud800 \u6307\u4ee4 a (b)", [0, 2])]
)
def test_words_that_occur_are_not_patterns(text: str, occur: list[int]):
    assert sorted(which_occur(["(b)", "[c", "\u6307\u4ee4"])(text)) == occur
