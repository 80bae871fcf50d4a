"""Sizes as people write them."""

import pytest

from ingest.platform.settings import mib, parse_bytes, parse_bytes_or_share


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("512MiB", 512 << 20), (" 2 GB ", 2 * 10**9), ("1.5g", 3 << 29), ("1tib", 1 << 40)],
)
def test_a_size_is_bytes_or_a_number_and_a_unit(text: str, size: int):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "5 apples", "-1", "1,000", "85%"])
def test_what_is_no_size_is_told_what_to_write(text: str):
    with pytest.raises(ValueError, match="512MiB"):
        parse_bytes(text)


def test_a_share_is_told_from_a_size():
    assert parse_bytes_or_share("85%") == 0.85
    assert parse_bytes_or_share("100 %") == 1.0
    assert parse_bytes_or_share("85") == 85


@pytest.mark.parametrize("text", ["0%", "101%"])
def test_a_share_is_more_than_nothing_and_at_most_all(text: str):
    with pytest.raises(ValueError, match="between 0% and 100%"):
        parse_bytes_or_share(text)


def test_sizes_are_told_in_whole_mebibytes():
    assert mib(1500 << 20) == "1,500 MiB"
