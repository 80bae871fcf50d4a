"""How many tokens a text has for the models that read it, and which texts fit in so many. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
BYTES_PER_TOKEN = 4
"""Measured with a large model's tokenizer: English conversation has 4.3 bytes a token, code and tool output 3.3, German
and Spanish 3.1, Russian 3.4, Chinese 2.7, Hindi 2.3; newer tokenizers have more. Exact counts differ by model."""


def estimated_tokens(text: str) -> int:
    """The bytes of a text in UTF-8 divided by four, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def fitting(items: Sequence[Item], tokens_of: Callable[[Item], int], room: int) -> list[Item]:
    """The items that have at most `room` tokens together, in order; one that does not fit makes room for a shorter one
    after it."""
    selected = list[Item]()
    for item in items:
        if (tokens := tokens_of(item)) <= room:
            selected.append(item)
            room -= tokens
    return selected
