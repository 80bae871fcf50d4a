import pytest

from projections.documents.observations import Observation
from projections.search.cues import TOOL_OUTPUT
from tests.support.condensing import called, saw


@pytest.mark.parametrize(
    "call",
    [
        called(1, "Read", {"file_path": "src/a.py"}, "import os"),
        called(1, "Grep", {"pattern": "retry"}, "src/a.py:1: retry"),
        called(1, "Bash", {"command": "make"}, "done"),
        called(1, "Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}),
    ],
    ids=lambda call: call.data["tool_name"],
)
def test_a_call_with_what_it_answered_is_the_output_of_a_tool(call: Observation):
    assert TOOL_OUTPUT in call.index_entry().terms.split()


@pytest.mark.parametrize(
    "observation",
    [
        called(1, "Bash", {"command": "make"}, error="no rule to make target"),
        called(1, "search_note", "We use Kafka", "We use Kafka"),
        saw(1, kind="file_read", content="The module retries three times"),
        saw(1, kind="prompt_submit", data={"prompt": "Why does it retry?"}),
    ],
    ids=["failed", "says its input", "content of its own", "prompt"],
)
def test_what_tells_something_is_not(observation: Observation):
    assert TOOL_OUTPUT not in observation.index_entry().terms.split()
