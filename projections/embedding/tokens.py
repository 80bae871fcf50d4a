"""The tokenizer of the packaged model: for the model, and to count the tokens of a text.

The one file that imports tokenizers.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from projections.vectors.embedder import encodable

_LONG_RUN = re.compile(r"\S{101,}")
"""The tokenizer takes such a run for one unknown word."""
_RUN_CHARS = 3
"""Of such a run, which count as a token."""


def load_tokenizer(path: Path, max_tokens: int | None = None) -> Any:
    """The tokenizer, cutting at the model's window if one is given, and adding no padding."""
    tokenizer: Any = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    if max_tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_tokens)
    return tokenizer


def counter(path: Path) -> Callable[[str], int]:
    """Counts the tokens of a text, without markers, with the tokenizer of this file: some 5 µs a token."""
    tokenizer = load_tokenizer(path)

    def count(text: str) -> int:
        runs = sum(len(run) // _RUN_CHARS for run in _LONG_RUN.findall(text))
        return runs + len(tokenizer.encode(encodable(text), add_special_tokens=False).ids)

    return count
