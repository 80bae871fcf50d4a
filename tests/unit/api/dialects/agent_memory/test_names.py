"""Names as clients give them."""

import pytest

from api.dialects.agent_memory.names import MAX_CHARS, UNKNOWN, name_of, project_of


@pytest.mark.parametrize(
    ("folder", "project"),
    [
        ("/home/ada/shop", "shop"),
        ("/home/ada/shop/", "shop"),
        ("shop", "shop"),
        ("/", UNKNOWN),
        ("", UNKNOWN),
        (None, UNKNOWN),
        ("C:\\Users\\ada\\shop", "C:\\Users\\ada\\shop"),
        ("/home/ada/nul\0", "nul\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_project_is_the_last_part_of_the_folder(folder: str | None, project: str):
    assert project_of(folder) == project


def test_long_names_fit_and_stay_different():
    one, other = name_of("x" * 1000), name_of("x" * 1001)
    assert len(one) == len(other) == MAX_CHARS
    assert one != other
    assert name_of(one) == one
