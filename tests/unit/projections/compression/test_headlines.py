"""A headline says what happened, for the tools of the agents that people use."""

from typing import Any

import pytest
from condensing import asked, called, saw

from projections.compression.accounts import HEADLINE_CHARS, headline


@pytest.mark.parametrize(
    ("tool", "given", "output", "wanted"),
    [
        (
            "Bash",
            {"command": "pytest tests/x"},
            {"stdout": "....F\n=== 1 failed, 12 passed in 0.3s ===", "stderr": "", "interrupted": False},
            "Bash `pytest tests/x`: 1 failed, 12 passed in 0.3s",
        ),
        ("Bash", {"command": "ls"}, {"stdout": "a.py\nb.py"}, "Bash `ls`"),
        (
            "Bash",
            {"command": "make"},
            "cc: fatal error: no input files",
            "Bash `make`: cc: fatal error: no input files",
        ),
        ("shell", {"command": ["bash", "-lc", "npm test"]}, "Tests: 2 failed", "shell `npm test`: Tests: 2 failed"),
        ("Read", {"file_path": "src/a.py"}, "def error(): ...", "Read `src/a.py`"),
        ("read_file", {"target_file": "src/a.py"}, "", "read_file `src/a.py`"),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "def f():\n    pay()", "new_string": "def f():\n    pay(order.id)"},
            "ok",
            "Edit `a.py`: `pay(order.id)`",
        ),
        (
            "write_file",
            {"absolute_path": "/a/b.py", "content": "\nimport os\n"},
            {},
            "write_file `/a/b.py`: `import os`",
        ),
        ("Grep", '{"pattern": "expires_in", "path": "src", "output_mode": "con', "x", "Grep `expires_in`"),
        ("mcp__tracker__close", {"number": 3}, {}, "mcp__tracker__close"),
    ],
)
def test_a_call_is_told_by_what_it_worked_on_and_how_it_went(tool: str, given: Any, output: Any, wanted: str):
    assert headline(called(0, tool, given, output)) == wanted


def test_a_failed_call_says_why():
    failed = called(0, "Bash", {"command": "make"}, error="make: *** No rule to make target 'x'.")
    assert headline(failed) == "Bash `make` failed: make: *** No rule to make target 'x'."


def test_what_was_said_is_told_by_its_first_sentence():
    assert headline(asked(0, "Please fix the login. Then the tests.")) == "Please fix the login."
    assert headline(saw(0, "We decided to use Kafka. It scales.")) == "We decided to use Kafka."
    assert headline(saw(0, "ok")) == "ok"


def test_a_headline_is_one_short_line():
    long = headline(called(0, "Bash", {"command": "x" * 5_000}, "1 failed\n" * 5_000))
    assert len(long) <= HEADLINE_CHARS
    assert "\n" not in long
