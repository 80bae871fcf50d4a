"""The connection of processes that query an engine, and the query syntax.

Questions wait in threads, where answers of hundreds of documents are decoded. Values in queries are encoded
(see `layout`), so nothing needs escaping.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias, cast

from redis import BlockingConnectionPool, Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from ingest.errors import IndexUnavailable
from ingest.platform.redis_client import PROTOCOL
from projections.index.protocol import DocumentLocation
from projections.search.question import Filter
from projections.search_engine.layout import NO, TERMS, VECTOR, YES, PartitionIndex, encoded, encoded_term, place_of

logger = logging.getLogger(__name__)
Word: TypeAlias = str | bytes | int | float
ANSWER_WITHIN_S = 5.0
TIMEOUT_MS = 10_000
"""Of a query: at its own limit, the engine answers with partial results. Ours comes first, and raises."""
DOES_NOT_ANSWER = "the search engine is not responding"
REFUSES = "the search engine cannot process this query now"
LAST = 1_000_000
"""Rows of an answer that the engine traverses; it refuses to skip more (MAXSEARCHRESULTS)."""
AT_ONCE = 10_000
"""Rows of one page of all results."""


class EngineAway(IndexUnavailable):
    """The search engine does not answer, or answers that it cannot."""


class Found(NamedTuple):
    """How many documents match, and those of a page, each with the fields that were asked for."""

    total: int
    rows: list[tuple[DocumentLocation, dict[bytes, bytes]]]

    @property
    def places(self) -> list[DocumentLocation]:
        """Where the documents of the page are."""
        return [place for place, _ in self.rows]


class Engine:
    """Asks one index of a search engine. Blocks, so it is for threads; any of them may use it."""

    def __init__(self, url: str, *, connections: int) -> None:
        pool = cast(Any, BlockingConnectionPool).from_url(
            url,
            max_connections=connections,
            timeout=ANSWER_WITHIN_S,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=2.0,
            health_check_interval=15,
            retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 1),
        )
        pool.connection_kwargs["protocol"] = PROTOCOL
        self._client: Any = Redis(connection_pool=pool)
        self._read = (files("projections.search_engine") / "lua" / "read.lua").read_text()
        self._sha = ""

    def close(self) -> None:
        """Close the connections."""
        self._client.connection_pool.disconnect()

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers to some commands, in one round trip. Raises EngineAway."""
        try:
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            return pipe.execute()
        except NoScriptError:
            raise
        except (RedisError, OSError) as error:  # its text names servers and the question: not for every reader
            logger.debug("the search engine: %s", error)
            refused = isinstance(error, ResponseError)
            raise EngineAway(REFUSES if refused else DOES_NOT_ANSWER) from error

    def read(self, index: str, places: Sequence[DocumentLocation], distance: int) -> list[tuple[int, list[Any]]]:
        """Partition and row (see `read.lua`) of documents, and of those up to `distance` places from them."""
        by_partition: dict[int, list[str]] = {}
        for partition, name in places:
            by_partition.setdefault(partition, []).append(name)
        calls: list[list[Word]] = []
        for partition, names in by_partition.items():
            keys = PartitionIndex(index, partition)
            calls.append([1, keys.state, *keys.prefixes, distance, *names])
        try:
            answers = self._run(calls)
        except NoScriptError:  # the engine was restarted
            self._sha = ""
            answers = self._run(calls)
        return [(partition, row) for partition, rows in zip(by_partition, answers, strict=True) for row in rows]

    def _run(self, calls: Sequence[Sequence[Word]]) -> list[Any]:
        if not self._sha:
            try:
                self._sha = str(self._client.script_load(self._read))
            except (RedisError, OSError) as error:
                raise EngineAway(DOES_NOT_ANSWER) from error
        return self.ask([["EVALSHA", self._sha, *call] for call in calls])


def search(
    index: str,
    query: str,
    count: int,
    *,
    offset: int = 0,
    sort: str = "",
    ascending: bool = False,
    fields: Sequence[str] = (),
    parameters: Sequence[Word] = (),
) -> list[Word]:
    """FT.SEARCH: by `sort` where it is given, else by BM25 (or by distance, where the query has a vector).

    Nothing is found behind LAST.
    """
    offset = min(offset, LAST)
    count = min(count, LAST - offset)
    words: list[Word] = ["FT.SEARCH", index, query]
    words += ["RETURN", len(fields), *fields] if fields else ["NOCONTENT"]
    words += ["SORTBY", sort, "ASC" if ascending else "DESC"] if sort else ["SCORER", "BM25STD"]
    if parameters:
        words += ["PARAMS", len(parameters), *parameters]
    return [*words, "VERBATIM", "LIMIT", offset, count, "TIMEOUT", TIMEOUT_MS, "DIALECT", 2]


def found(answer: Sequence[Any], *, fields: bool = False) -> Found:
    """The answer to FT.SEARCH; `fields` where there are any in it."""
    total, rows = int(answer[0]), answer[1:]
    if not fields:
        return Found(total, [(place_of(key), {}) for key in rows])
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return Found(total, [(place_of(key), dict(zip(row[::2], row[1::2], strict=True))) for key, row in pairs])


EF_RUNTIME = 200
"""Of the graph, as in the embedded index."""


def filter_query(allowed: Filter, *more: str) -> str:
    """The documents that a filter allows, and that match `more`; `embedded` is ignored."""
    return " ".join([*_clauses(allowed, scored=False), *more])


def words_query(allowed: Filter, terms: Sequence[str]) -> str:
    """Those of them that say all the terms. Only what they say counts for the score."""
    return " ".join([*_clauses(allowed, scored=True), said_query(terms)])


def any_word_query(allowed: Filter, weights: Mapping[str, float]) -> str:
    """Those of them that say any of the terms, each of which counts for the score by its weight."""
    words = "|".join(f"({said_query([term])}=>{{$weight: {weight:.4f}}})" for term, weight in weights.items())
    return " ".join([*_clauses(allowed, scored=True), f"({words})"])


def said_query(terms: Sequence[str]) -> str:
    """The documents that say all the terms."""
    return f"@{TERMS}:({' '.join(map(encoded_term, terms))})"


def saying_query(allowed: Filter, terms: Sequence[str], concept: str) -> str:
    """Those of them that say all the terms, or are about a concept."""
    said = [said_query(terms)] if terms else []
    return filter_query(allowed, f"({' | '.join([*said, tag('concept', [concept])])})")


def like_query(allowed: Filter, term: str, edits: int) -> str:
    """Those of them that say a term so many letters away, of which two swapped ones are two."""
    around = "%" * edits
    return filter_query(allowed, f"@{TERMS}:({around}{encoded_term(term)}{around})")


def nearest_query(matching: str, policy: str) -> str:
    """The `$count` of the matching documents that are nearest to the vector `$vector`."""
    return f"({matching})=>[KNN $count @{VECTOR} $vector {policy}]"


def tag(name: str, values: Iterable[str]) -> str:
    """The documents with any of the values of a facet."""
    return written_tag(name, "|".join(map(encoded, values)))


def written_tag(name: str, written: str) -> str:
    """The documents with one value of a facet, as it is written."""
    return f"@{name}:{{{written}}}"


def between(name: str, low: float | None, high: float | None) -> str:
    """The documents whose number is in a range, its ends included."""
    return f"@{name}:[{'-inf' if low is None else low} {'+inf' if high is None else high}]"


def _clauses(allowed: Filter, *, scored: bool) -> list[str]:
    having = _unscored if scored else tag
    clauses = [having(name, values) for name, values in allowed.required()]
    if allowed.any_of:
        clauses.append(f"({' | '.join(having(name, [value]) for name, value in allowed.any_of)})")
    clauses += [f"-{tag(name, [value])}" for name, value in allowed.without]
    if allowed.importance_to is not None:
        clauses.append(between("importance", None, allowed.importance_to))
    if allowed.from_ms is not None or allowed.to_ms is not None:
        clauses.append(between("occurred", allowed.from_ms, allowed.to_ms))
    if allowed.retired:
        return [*clauses, having("retired", [YES])]
    if not allowed.operator:
        own = [having("reader", [allowed.reader])] if allowed.reader else []
        clauses.append(f"({' | '.join([having('restricted', [NO]), *own])})")
    as_of = allowed.as_of_ms
    in_use = having("retired", [NO])
    if as_of is not None:
        clauses.append(between("recorded", None, as_of))
        in_use = f"({in_use} | @retired_at:[({as_of} +inf])"
    then_ms = allowed.now_ms if as_of is None else as_of
    return [*clauses, in_use, f"({having('expiring', [NO])} | @expires_at:[({then_ms} +inf])"]


def _unscored(name: str, values: Iterable[str]) -> str:
    # The engine adds the rarity of the value to a document's score, and applies a weight only to a tag of several
    # values: so a single one is written twice.
    values = list(values)
    return f"{tag(name, values if len(values) > 1 else 2 * values)}=>{{$weight: 0}}"
