"""What makes two lessons the same."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.events.lesson import fingerprint


def test_case_and_outer_whitespace_do_not_make_another_lesson():
    assert fingerprint("  Run Tests\n") == fingerprint("run tests") == "c7b8e61142837b8e"


@given(st.text())
def test_every_text_has_a_fingerprint(content: str):
    assert len(fingerprint(content)) == 16
