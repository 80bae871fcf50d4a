"""From texts to vectors: the protocol of embedding providers and its errors, cache keys, chunks, the queue's order.

Cache: a repeated text costs no inference. A cached vector is float16, two bytes per dimension, which changes a cosine
by less than 1e-6 (see the test), far less than int8 inference does.

Chunks: a long text is embedded in parts that fit the model's window, so that what it says near the end can be found by
meaning. A document has at most MAX_CHUNKS parts (about 4,800 words of English prose). Parts of a longer text are spread
from its beginning to its end; the words in between have no vector and are found by the lexical index only. The work is
bounded the same way, however long the text is.

Queue: a sorted set of document ids, lowest score first: memories and lessons, then what users and agents said, then
summaries, then tool output; within each group the newest, or last shown by recall, first. Under load the oldest tool
output waits: every document can be found by its static vector until its own is ready.
"""

import hashlib
import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ingest.errors import MnemologError
from ingest.secrets.redaction import redacted


class Embedder(Protocol):
    """Turns texts into vectors. Synchronous and safe to call from several threads: callers run it in a thread."""

    @property
    def model(self) -> str:
        """Stable identity, quantisation included; vectors of different identities must never be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector; 0 means that nothing is embedded."""
        ...

    @property
    def max_tokens(self) -> int:
        """Text beyond this many of the model's tokens does not influence the vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length in the order of the texts; no texts give (0, dimensions)."""
        ...


class Embedders(Protocol):
    """Where the parts of a process find the live embedder (`embedding/live.py`)."""

    @property
    def current(self) -> Embedder:
        """The one that was live at the last look."""
        ...

    @property
    def spec(self) -> str:
        """How that one is configured."""
        ...

    @property
    def configured(self) -> str:
        """The spec that the configuration names."""
        ...

    @property
    def named(self) -> frozenset[str]:
        """The specs that a request may name, compared literally."""
        ...

    async def refresh(self) -> Embedder:
        """Look again. Raises what the server raises."""
        ...

    async def built(self, spec: str) -> Embedder:
        """Another one; raises EmbedderNotNamed, and EmbeddingError when this machine cannot have it."""
        ...


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows scaled to length 1, float32 and contiguous; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def embed_questions(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed questions; some models expect them in another form than texts."""
    return getattr(embedder, "embed_questions", embedder.embed)(texts)


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 and so every tokenizer refuses, replaced by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class NoEmbedder:
    """Gives vectors of no dimensions, which costs nothing and says plainly that there is no vector search."""

    model = "none"
    dimensions = 0
    max_tokens = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 0) float32."""
        return np.zeros((len(texts), 0), dtype=np.float32)


class EmbeddingError(MnemologError):
    """An embedding could not be made."""

    code = "embedding_failed"


class UnknownEmbedder(EmbeddingError):
    """The configured embedder is not one that mnemolog knows: correct the configuration."""

    def __init__(self, spec: str, reason: str) -> None:
        super().__init__(f"embedder {redacted(spec)!r}: {reason}")


class EmbedderNotNamed(EmbeddingError):
    """The settings of this process do not name the embedder, so it is not used."""

    code = "embedder_not_named"

    def __init__(self) -> None:
        super().__init__(
            "this embedder is in neither MNEMOLOG_EMBEDDER nor MNEMOLOG_EMBEDDERS of this process, "
            "so nothing is sent to it: add it to MNEMOLOG_EMBEDDERS of every API and worker process"
        )


class ModelUnavailable(EmbeddingError):
    """The model's files are missing, damaged or cannot be loaded on this machine: choose another embedder."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model}: {reason}")


class Unavailable:
    """Stands in for a live embedder that this process cannot load: embedding a text raises the reason."""

    max_tokens = 0

    def __init__(self, model: str, dimensions: int, reason: str) -> None:
        self.model, self.dimensions, self._reason = model, dimensions, reason

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises ModelUnavailable."""
        raise ModelUnavailable(self.model, self._reason)


class EmbeddingServiceUnavailable(EmbeddingError):
    """The remote service did not answer, or not in time, after every attempt: try again later."""

    def __init__(self, url: str, attempts: int, reason: str) -> None:
        super().__init__(f"{url}: {reason} (after {attempts} attempts)")


class EmbeddingServiceRefused(EmbeddingError):
    """The remote service refused the request (key, model name, input): trying again will not help."""

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"{url}: HTTP {status}: {detail}")


class InvalidEmbeddingResponse(EmbeddingError):
    """The remote service answered with something that is not the vectors asked for."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")


class WrongVectorLength(EmbeddingError):
    """A stored vector does not have the length its model says."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"expected {expected} bytes, got {actual}")


BYTES_PER_DIMENSION = 2


def text_digest(text: str) -> bytes:
    """SHA-256 of a text: all that is needed to find its vector once the text itself is forgotten."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def cache_key(model: str, text: str) -> bytes:
    """SHA-256 of model, NUL and the text's digest."""
    return cache_key_of(model, text_digest(text))


def cache_key_of(model: str, digest: bytes) -> bytes:
    """The cache key of the text with this digest; a model's name holds no NUL, so no two pairs share bytes."""
    if "\0" in model:
        raise ValueError(f"a model's name cannot contain NUL: {model!r}")
    return hashlib.sha256(model.encode() + b"\0" + digest).digest()


def pack(vector: NDArray[np.float32]) -> bytes:
    """The vector as little-endian float16."""
    return vector.astype("<f2").tobytes()


def unpack(packed: bytes, dimensions: int) -> NDArray[np.float32]:
    """The float32 vector that was packed, scaled to length 1 again; WrongVectorLength if the bytes do not fit."""
    if len(packed) != dimensions * BYTES_PER_DIMENSION:
        raise WrongVectorLength(dimensions * BYTES_PER_DIMENSION, len(packed))
    return unit_rows(np.frombuffer(packed, dtype="<f2").astype(np.float32).reshape(1, -1))[0]


MAX_CHUNKS = 32
MAX_WORDS = 180
# MiniLM's window is 256 tokens, two of them markers; the rest is slack for what `estimated_tokens` gets wrong.
MAX_TOKENS = 225
# Words that neighbors share, so that most sentences cut at a boundary are whole in one of them.
OVERLAP = 20

LONGEST_WORD = 40
_WORD = re.compile(rf"\S{{1,{LONGEST_WORD}}}")  # a longer run without spaces is split by characters
_RUN = re.compile(r"[A-Za-z]+|[A-Za-z0-9]+|[^\sA-Za-z0-9]")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")


class _Word(NamedTuple):
    """A run of characters: its place in the text, its estimated tokens, whether a sentence or line ends with it."""

    start: int
    end: int
    tokens: int
    closes: bool


def chunk(text: str) -> list[str]:
    """Overlapping slices of the text in order, each within the window; a text that fits comes back unchanged.

    A text of more than MAX_CHUNKS slices has that many, at equal distances. Blank text has none. Where possible a slice
    ends with a sentence or a line.
    """
    words = _words(text, MAX_CHUNKS * MAX_WORDS + 1)
    if not words:
        return []
    parts: list[str] = []
    first = 0
    while len(parts) < MAX_CHUNKS:
        last = _end_of_part(words, first)
        if first == 0 and last == len(words):
            return [text]
        parts.append(text[words[first].start : words[last - 1].end])
        if last == len(words):
            return parts
        first = max(last - min(OVERLAP, (last - first) // 3), first + 1)
    return _spread(text)


def _spread(text: str) -> list[str]:
    """MAX_CHUNKS slices, the first at the beginning of the text and the last at its end."""
    longest = MAX_WORDS * LONGEST_WORD + MAX_WORDS
    end = _words(text[-longest:], longest)
    last = len(end)
    while last and _end_of_part(end, last - 1) == len(end):
        last -= 1
    final = text[-longest:][end[last].start :]
    step = (len(text) - len(final)) // (MAX_CHUNKS - 1)
    parts: list[str] = []
    for start in range(0, step * (MAX_CHUNKS - 1), step):
        around = text[start : start + longest]
        cut = start > 0 and not text[start - 1].isspace()  # within a word
        words = _words(around, MAX_WORDS + 2)[cut:] or _words(around, MAX_WORDS + 2)
        parts.append(around[words[0].start : words[_end_of_part(words, 0) - 1].end])
    return [*parts, final]


def estimated_tokens(word: str) -> int:
    """How many word pieces a run of characters becomes, at a guess that is rarely too low for English and code."""
    tokens = 0
    for run in _RUN.findall(word):
        rare = len(run) > 15 or not run.isalpha()  # hashes, numbers, base64: nearly two characters a piece
        tokens += -(-len(run) // (2 if rare else 7)) if run.isascii() else 1
    return tokens


def _words(text: str, limit: int) -> list[_Word]:
    return [
        _Word(
            start=match.start(),
            end=match.end(),
            tokens=estimated_tokens(match[0]),
            closes=text[match.end() : match.end() + 1] == "\n" or _SENTENCE_END.search(match[0]) is not None,
        )
        for match in islice(_WORD.finditer(text), limit)
    ]


def _end_of_part(words: Sequence[_Word], first: int) -> int:
    """Index after the last word of the part that starts at `first`: at least one word, at best whole sentences."""
    end, tokens = first, 0
    while end < len(words) and end - first < MAX_WORDS and (end == first or tokens + words[end].tokens <= MAX_TOKENS):
        tokens += words[end].tokens
        end += 1
    if end == len(words):
        return end
    earliest = first + 2 * (end - first) // 3
    return next((at + 1 for at in range(end - 1, earliest, -1) if words[at].closes), end)


STEP = 1e13
_FAR_MS = 9e12
"""The year 2255, from which scores count down, so that the newest is the lowest."""


class Urgency(IntEnum):
    """Whose turn it is."""

    KEPT = 1
    SAID = 2
    SUMMARIZED = 3
    TOOL_OUTPUT = 4


def place(urgency: Urgency, at_ms: float) -> float:
    """The score of a document that was recorded at that time (ms since the epoch)."""
    return urgency * STEP + _FAR_MS - at_ms


def changed_place(urgency: Urgency, at_ms: float) -> float:
    """The score of a document that was recorded before, and is queued again: no event's, since those are whole."""
    return place(urgency, at_ms) + 0.5


def waiting_since_ms(score: float) -> float:
    """When the document with this score was recorded."""
    return _FAR_MS - score % STEP
