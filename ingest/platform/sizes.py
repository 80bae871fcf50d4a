"""Sizes as people write them: `512MiB`, `2 GB`, `85%`. Pure."""

import re

_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kib": 1 << 10, "kb": 10**3,
    "m": 1 << 20, "mib": 1 << 20, "mb": 10**6,
    "g": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def parse_bytes(text: str) -> int:
    """A number of bytes, with or without a unit; raises ValueError, whose message says what can be written."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise ValueError(f"{text!r} is no size; write bytes, or a number and a unit: 512MiB, 2GiB")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def parse_bytes_or_share(text: str) -> int | float:
    """A number of bytes (int), or a share of something as a float above 0 and at most 1; raises ValueError."""
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        return parse_bytes(text)
    share = float(found[1]) / 100
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not between 0% and 100%")
    return share


def mib(size: int) -> str:
    """Bytes in words, rounded to whole MiB."""
    return f"{size / 2**20:,.0f} MiB"
