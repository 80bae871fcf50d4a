"""An observation's account is readable, whatever form it came in."""

from typing import Any

import pytest
from condensing import asked, called, saw
from hypothesis import given
from hypothesis import strategies as st

from projections.compression.accounts import account, is_call, prose, user_prompt
from projections.documents.observations import Observation

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


def test_only_a_hook_reports_a_user_prompt():
    assert user_prompt(asked(0, "Fix it")) == "Fix it"
    assert user_prompt(saw(0, "Fix it", kind="conversation")) == ""


def test_a_call_that_failed_is_not_bare():
    assert is_call("Edit `src/a.py`.")
    assert is_call("ada: Bash `make all`")
    assert is_call("Bash `make` failed: no rule")
    assert is_call("exec_command `cargo test --lib`: test result: FAILED.")
    assert not is_call("The `gateway` restarts after a deploy.")


@given(st.dictionaries(NAMES, JSON))
def test_no_data_makes_it_fail(data: dict[str, Any]):
    assert account(saw(0, data=data))
