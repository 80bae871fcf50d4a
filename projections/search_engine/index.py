"""An index on a search engine: see `Index`. It blocks, so its questions run in threads."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace

from ingest.ids import DocumentId
from projections.index.protocol import (
    MAX_OF_ONE_MOMENT,
    DocumentLocation,
    Linked,
    Links,
    Listed,
    RankedLesson,
    Window,
    time_and_id,
)
from projections.nouns.index_entry import IndexEntry
from projections.nouns.memory import MOST_IMPORTANT
from projections.search import search as ranking
from projections.search.candidates import REACH
from projections.search.decay import lesson_weights, memory_weights
from projections.search.question import Filter, Hit, Question, entry_facets, facet
from projections.search_engine.candidates import EngineCandidates, EngineIndexed, asked_terms
from projections.search_engine.engine import (
    AT_ONCE,
    TIMEOUT_MS,
    Found,
    Word,
    between,
    filter_query,
    found,
    saying_query,
    search,
    tag,
    written_tag,
)
from projections.search_engine.layout import (
    ENTRY,
    EPISODE,
    SEPARATOR,
    PartitionIndex,
    decoded,
    encoded,
    entry_of,
    place_of,
)

Item = TypeVar("Item")

SAID = 2_000
"""Documents that say a word, the newest of them."""
SUREST = 2_000
"""Lessons of highest confidence when last said, from which those of highest confidence now are chosen."""
CHECKED_AT_ONCE = 1_000
TIES = 10_000
"""Documents of one moment that are sorted at most."""


class Group(NamedTuple):
    """How many documents there are, and of how many episodes; all outside any are one more."""

    documents: int
    episodes: int


@dataclass
class EngineIndex:
    """See `Index`."""

    _of: EngineIndexed
    _partitions: int

    def __len__(self) -> int:
        return self._of.documents

    def search(self, question: Question, allowed: Filter) -> list[Hit]:
        distance = REACH if question.ranking == "fused" else 0
        return ranking.search(EngineCandidates(self._of, allowed, distance), question)

    def count(self, allowed: Filter) -> int:
        if allowed.embedded is None or self._all_embedded:
            (count,) = self._counts([filter_query(allowed)])
            return count if allowed.embedded is not False else 0
        return len(self.every(allowed))

    def counts(self, allowed: Filter, name: Listed) -> dict[str, int]:
        grouped = self._grouped(filter_query(allowed), name)
        return self._as_given(name, {written: group.documents for written, group in grouped.items()})

    def recorded_last(self, allowed: Filter, count: int) -> list[DocumentLocation]:
        located = self._in_time(filter_query(allowed), "recorded", count, newest_first=True)
        return [place for _, place in sorted(located, key=lambda row: (-row[0], row[1][1]))[:count]]

    def most_recent(self, allowed: Filter, count: int, offset: int = 0) -> list[DocumentLocation]:
        return self._search(filter_query(allowed), count, offset=offset, sort="occurred").places

    def window(self, allowed: Filter, offset: int, limit: int) -> Window:
        query = filter_query(allowed)
        page = self._search(query, limit, offset=offset, sort="occurred", fields=["occurred"])
        if not page.rows:
            return Window([], 0, frozenset(), page.total)
        times = [int(fields[b"occurred"]) for _, fields in page.rows]
        first, last = times[0], times[-1]
        moments = {at_ms: f"{query} {between('occurred', at_ms, at_ms)}" for at_ms in {first, last}}
        many = dict(zip(moments, self._counts([*moments.values()]), strict=True))
        (newer,) = self._counts([f"{query} @occurred:[({first} +inf]"])
        crowded = frozenset(at_ms for at_ms, count in many.items() if count > MAX_OF_ONE_MOMENT)
        rows = {place: at_ms for at_ms, (place, _) in zip(times, page.rows, strict=True)}
        for at_ms in moments.keys() - crowded:
            rows |= dict.fromkeys(self._search(moments[at_ms], MAX_OF_ONE_MOMENT).places, at_ms)
        located = sorted(((at_ms, place) for place, at_ms in rows.items()), key=time_and_id, reverse=True)
        return Window(located, 0 if first in crowded else max(0, offset - newer), crowded, page.total)

    def nearest(self, allowed: Filter, when_ms: int) -> list[DocumentLocation]:
        query = filter_query(allowed)
        located = [
            *self._in_time(f"{query} {between('occurred', None, when_ms)}", "occurred", 1, newest_first=True),
            *self._in_time(f"{query} {between('occurred', when_ms, None)}", "occurred", 1, newest_first=False),
        ]
        closest = sorted((abs(at_ms - when_ms), name, partition) for at_ms, (partition, name) in located)
        return [(partition, DocumentId(name)) for _, name, partition in closest[:1]]

    def around(
        self, allowed: Filter, anchor: str, when_ms: int, before: int, after: int
    ) -> tuple[list[DocumentLocation], list[DocumentLocation]]:
        query, key = filter_query(allowed), (when_ms, anchor)
        same = self._search(f"{query} {between('occurred', when_ms, when_ms)}", TIES).places
        located = [
            *self._in_time(f"{query} @occurred:[-inf ({when_ms}]", "occurred", before, newest_first=True),
            *((when_ms, place) for place in same),
            *self._in_time(f"{query} @occurred:[({when_ms} +inf]", "occurred", after, newest_first=False),
        ]
        ordered = sorted(located, key=time_and_id)
        past = [row[1] for row in ordered if time_and_id(row) < key]
        future = [row[1] for row in ordered if time_and_id(row) > key]
        return past[len(past) - min(before, len(past)) :], future[:after]

    def saying(self, allowed: Filter, words: str, *, everywhere: bool) -> list[DocumentLocation]:
        query = saying_query(allowed, asked_terms(words), words)
        return self._search(query, SAID, sort="occurred").places

    def every(self, allowed: Filter, most: int | None = None) -> list[DocumentLocation]:
        if allowed.embedded is False and self._all_embedded:
            return []
        places: list[DocumentLocation] = []
        with closing(self._pages(filter_query(allowed))) as pages:
            for some in pages:
                places += some if allowed.embedded is None else self._with_vectors(some, allowed.embedded)
                if most is not None and len(places) >= most:
                    break
        return places[:most]

    def beginning(self, allowed: Filter, begins: str) -> list[DocumentLocation]:
        # ids are no field of the engine's index; shortened ones are read by people and agents, now and then
        return [location for location in self.every(allowed) if location[1].startswith(begins)]

    def facets(self, places: Sequence[DocumentLocation]) -> list[Sequence[str]]:
        raws: list[bytes | None] = []
        for some in _slices(places, CHECKED_AT_ONCE):
            keys = [PartitionIndex(self._of.name, partition).document(name) for partition, name in some]
            raws += self._of.engine.ask([["HGET", key, ENTRY] for key in keys])
        return [
            () if raw is None else entry_facets(partition, entry_of(raw))
            for (partition, _), raw in zip(places, raws, strict=True)
        ]

    def with_vectors(self, names: Iterable[str]) -> set[str]:
        anywhere = [(partition, DocumentId(name)) for name in names for partition in range(self._partitions)]
        return {name for some in _slices(anywhere, CHECKED_AT_ONCE) for _, name in self._with_vectors(some, True)}

    def linked_values(self, allowed: Filter, name: Linked, most: int) -> list[str]:
        grouped = self._grouped(filter_query(allowed), name)
        return [*self._as_given(name, {written: grouped[written].documents for written in sorted(grouped)[:most]})]

    def links(self, allowed: Filter, name: Linked, values: Sequence[str]) -> dict[str, Links]:
        if not values:
            return {}
        query = filter_query(allowed, tag(name, values))
        memories, observations = (
            self._grouped(f"{query} {tag('kind', [kind])}", name) for kind in ("memory", "observation")
        )
        nothing, links = Group(0, 0), dict[str, Links]()
        for value in values:
            written = encoded(value)
            counts = memories.get(written, nothing).documents, observations.get(written, nothing).episodes
            if any(counts):
                links[value] = Links(*counts)
        return links

    def lessons_by_confidence(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[RankedLesson]:
        # the engine cannot decay confidence, so the SUREST when last said are ranked here
        lessons = replace(allowed, kinds=["lesson"])
        queries = [filter_query(lessons), filter_query(lessons, tag("project", [project]))]
        rows = self._rows(
            [search(self._of.name, query, SUREST, sort="confidence", fields=[ENTRY]) for query in queries]
        )
        entries = list(rows.values())
        weight = lesson_weights(
            np.array([entry.confidence for entry in entries], np.float64),
            np.array([entry.renewed_ms for entry in entries], np.int64),
            np.array([entry.project == project for entry in entries], np.bool_),
            now_ms,
        )
        best = sorted((-value, name, place) for value, (place, name) in zip(weight.tolist(), rows, strict=True))
        return [RankedLesson(name, partition, -value) for value, name, partition in best[:count]]

    def notable_memories(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[DocumentLocation]:
        # the engine cannot weigh age, so the newest `count` of each step of importance are ranked here
        memories = replace(allowed, kinds=["memory"])
        of_project = [tag("project", [project])] if project else []
        of_agent = [tag("agent", [allowed.reader])] if allowed.reader else []
        weighing_more = {tuple(tags): None for tags in ([], of_project, of_agent, [*of_project, *of_agent])}
        queries = [
            filter_query(memories, between("importance", least, least + 1), *tags)
            for least in range(int(MOST_IMPORTANT) + 1)
            for tags in weighing_more
        ]
        rows = self._rows([search(self._of.name, query, count, sort="recorded", fields=[ENTRY]) for query in queries])
        entries = list(rows.values())
        weight = memory_weights(
            np.array([entry.importance for entry in entries], np.float32),
            np.array([entry.recorded_ms for entry in entries], np.int64),
            np.array([bool(project) and entry.project == project for entry in entries], np.bool_),
            np.array([bool(allowed.reader) and entry.agent_id == allowed.reader for entry in entries], np.bool_),
            now_ms,
        )
        best = sorted((-value, place[1], place) for value, place in zip(weight.tolist(), rows, strict=True))
        return [place for _, _, place in best[:count]]

    @property
    def _all_embedded(self) -> bool:
        return self._of.embedded == self._of.documents

    def _search(self, query: str, count: int, *, offset: int = 0, sort: str = "", fields: Sequence[str] = ()) -> Found:
        command = search(self._of.name, query, count, offset=offset, sort=sort, fields=fields)
        (answer,) = self._of.engine.ask([command])
        return found(answer, fields=bool(fields))

    def _counts(self, queries: Sequence[str]) -> list[int]:
        answers = self._of.engine.ask([search(self._of.name, query, 0) for query in queries])
        return [int(answer[0]) for answer in answers]

    def _in_time(self, query: str, name: str, count: int, *, newest_first: bool) -> list[tuple[int, DocumentLocation]]:
        """The first `count` by a time, and all of the moment of the last of them, with times; in no order."""
        command = search(self._of.name, query, count, sort=name, ascending=not newest_first, fields=[name])
        (answer,) = self._of.engine.ask([command])
        rows = {place: int(fields[name.encode()]) for place, fields in found(answer, fields=True).rows}
        if len(rows) == count > 0:
            last = list(rows.values())[-1]
            rows |= dict.fromkeys(self._search(f"{query} {between(name, last, last)}", TIES).places, last)
        return [(at_ms, place) for place, at_ms in rows.items()]

    def _pages(self, query: str) -> Generator[list[DocumentLocation]]:
        """All that match, some at a time."""
        (answer,) = self._of.engine.ask([[
            "FT.AGGREGATE", self._of.name, query, "LOAD", 1, "@__key", "WITHCURSOR", "COUNT", AT_ONCE,
            "TIMEOUT", TIMEOUT_MS, "DIALECT", 2,
        ]])  # fmt: skip
        rows, cursor = answer
        try:
            while True:
                yield [place_of(row[1]) for row in rows[1:]]
                if not cursor:
                    return
                (answer,) = self._of.engine.ask([["FT.CURSOR", "READ", self._of.name, cursor]])
                rows, cursor = answer
        finally:
            if cursor:  # the engine has few of them, and keeps them for minutes
                self._of.engine.ask([["FT.CURSOR", "DEL", self._of.name, cursor]])

    def _with_vectors(self, places: Sequence[DocumentLocation], having: bool) -> list[DocumentLocation]:
        keys = [PartitionIndex(self._of.name, partition).vectors(name) for partition, name in places]
        answers = self._of.engine.ask([["EXISTS", key] for key in keys]) if keys else []
        return [place for place, there in zip(places, answers, strict=True) if bool(there) == having]

    def _rows(self, commands: Sequence[Sequence[Word]]) -> dict[DocumentLocation, IndexEntry]:
        answers = self._of.engine.ask(commands)
        rows: Iterator[tuple[DocumentLocation, Mapping[bytes, bytes]]] = (
            row for answer in answers for row in found(answer, fields=True).rows
        )
        return {place: entry_of(fields[ENTRY.encode()]) for place, fields in rows}

    def _grouped(self, query: str, name: str) -> dict[str, Group]:
        """What matches with each value of a facet, as it is written; also with other values that it has."""
        (answer,) = self._of.engine.ask([[
            "FT.AGGREGATE", self._of.name, query, "LOAD", 2, f"@{name}", f"@{EPISODE}",
            "FILTER", f"exists(@{name})",
            "APPLY", f'split(@{name}, "{SEPARATOR}")', "AS", "value", "APPLY", f"exists(@{EPISODE})", "AS", "within",
            "GROUPBY", 1, "@value", "REDUCE", "COUNT", 0, "AS", "documents",
            "REDUCE", "SUM", 1, "@within", "AS", "within",
            "REDUCE", "COUNT_DISTINCT", 1, f"@{EPISODE}", "AS", "episodes",
            "LIMIT", 0, 1_000_000, "TIMEOUT", TIMEOUT_MS, "DIALECT", 2,
        ]])  # fmt: skip
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in answer[1:]]
        return {
            row[b"value"].decode(): Group(
                int(row[b"documents"]), int(row[b"episodes"]) + (row[b"within"] != row[b"documents"])
            )
            for row in rows
        }

    def _as_given(self, name: str, of: Mapping[str, int]) -> dict[str, int]:
        """The counts by the value of a facet, not as it is written: a long one is read from a document."""
        plain = {written: decoded(written) for written in of}
        long = [written for written, value in plain.items() if value is None]
        queries = [written_tag(name, written) for written in long]
        commands = [search(self._of.name, query, 1, sort="occurred", fields=[ENTRY]) for query in queries]
        answers = self._of.engine.ask(commands) if commands else []
        for written, answer in zip(long, answers, strict=True):
            for place, fields in found(answer, fields=True).rows:
                keys = entry_facets(place[0], entry_of(fields[ENTRY.encode()]))
                values = [key.removeprefix(facet(name, "")) for key in keys if key.startswith(facet(name, ""))]
                plain[written] = next((value for value in values if encoded(value) == written), None)
        return {value: of[written] for written, value in plain.items() if value is not None}


def _slices(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
