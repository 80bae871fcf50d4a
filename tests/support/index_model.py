"""What an index holds, as a dictionary, and random feeds for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from projections.nouns.index_entry import IndexEntry
from projections.search.question import Filter
from projections.store.feed import Cleared, FeedItem, Put, Remove, Switched, Vectors

MODEL = "test/model"
WORDS = ["tea", "milk", "lemon", "build", "fail"]
Step = tuple[int, FeedItem]
"""A feed item and the partition whose feed it is in. A document is always in the same one."""

CHANGING = (
    "retired_ms", "expires_ms", "renewed_ms", "confidence", "importance", "audience", "tags", "types", "files",
    "concepts", "agent_id", "user_id", "occurred_ms", "recorded_ms",
)  # fmt: skip
"""What may change while a document's text stays."""


def partition_of(name: str) -> int:
    """In which of two partitions a document is."""
    return int(name[-1]) % 2


def changed(entry: IndexEntry, other: IndexEntry) -> IndexEntry:
    """The document with what may change taken from another."""
    return replace(entry, **{name: getattr(other, name) for name in CHANGING})


def of_its_kind(entry: IndexEntry) -> IndexEntry:
    """The document with the kind that its id says."""
    return replace(entry, kind={"mem": "memory", "lsn": "lesson"}.get(entry.id[:3], "observation"))


@dataclass
class Model:
    """The index as a dictionary."""

    entries: dict[str, IndexEntry] = field(default_factory=dict[str, IndexEntry])
    rows: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def apply(self, item: FeedItem) -> None:
        """Apply a feed item."""
        match item:
            case Put(entry):
                before = self.entries.get(entry.id)
                if before is None or before.terms != entry.terms:
                    self.rows.pop(entry.id, None)
                self.entries[entry.id] = entry
            case Remove(name):
                self._remove(name)
            case Vectors(id=name, model=model, rows=rows):
                if name in self.entries and model == MODEL:
                    self.rows[name] = rows
            case Switched() | Cleared():
                pass

    def _remove(self, name: str) -> None:
        self.entries.pop(name, None)
        self.rows.pop(name, None)

    def matching(self, allowed: Filter) -> set[str]:
        """The ids of the documents that a filter allows."""
        return {name for name, entry in self.entries.items() if is_allowed(entry, allowed)}


def is_allowed(entry: IndexEntry, allowed: Filter) -> bool:
    """The filter, said plainly; but for `embedded`."""
    return _is_of(entry, allowed) and (bool(entry.retired_ms) if allowed.retired else _in_use(entry, allowed))


def _is_of(entry: IndexEntry, allowed: Filter) -> bool:
    return (
        entry.tenant == allowed.tenant
        and allowed.project in (None, entry.project)
        and (not allowed.projects or entry.project in allowed.projects)
        and (not allowed.within or entry.project in allowed.within)
        and allowed.agent_id in ("", entry.agent_id)
        and allowed.only_agent in ("", entry.agent_id)
        and allowed.session_id in ("", entry.session_id)
        and allowed.user_id in ("", entry.user_id)
        and allowed.visibility in ("", entry.visibility)
        and (not allowed.kinds or entry.kind in allowed.kinds)
        and set(allowed.tags) <= set(entry.tags)
        and (not allowed.any_tags or not set(allowed.any_tags).isdisjoint(entry.tags))
        and (not allowed.types or not set(allowed.types).isdisjoint(entry.types))
        and (not allowed.files or not set(allowed.files).isdisjoint(entry.files))
        and (not allowed.concepts or not set(allowed.concepts).isdisjoint(entry.concepts))
        and (not allowed.any_of or any(value in values_of(entry, name) for name, value in allowed.any_of))
        and not any(value in values_of(entry, name) for name, value in allowed.without)
        and (allowed.importance_to is None or entry.importance <= allowed.importance_to)
        and (allowed.from_ms is None or entry.occurred_ms >= allowed.from_ms)
        and (allowed.to_ms is None or entry.occurred_ms <= allowed.to_ms)
    )


def _in_use(entry: IndexEntry, allowed: Filter) -> bool:
    when = allowed.now_ms if allowed.as_of_ms is None else allowed.as_of_ms
    retired = bool(entry.retired_ms) and (allowed.as_of_ms is None or entry.retired_ms <= allowed.as_of_ms)
    return (
        (allowed.operator or not entry.audience or (allowed.reader != "" and allowed.reader in entry.audience))
        and not retired
        and not (entry.expires_ms and entry.expires_ms <= when)
        and (allowed.as_of_ms is None or entry.recorded_ms <= allowed.as_of_ms)
    )


def values_of(entry: IndexEntry, name: str) -> Sequence[str]:
    """What a document has of a facet."""
    several = {"tag": entry.tags, "type": entry.types, "file": entry.files, "concept": entry.concepts}
    item = {"project": entry.project, "agent": entry.agent_id, "session": entry.session_id, "kind": entry.kind}
    return several[name] if name in several else [item[name]]


class RandomFeed:
    """Steps without end: documents come, change, get vectors, go and come back. The same ones for a seed."""

    def __init__(self, seed: int, documents: int) -> None:
        """Of at most so many documents at a time."""
        self._random, self._documents = Random(seed), documents
        self._known: dict[str, IndexEntry] = {}

    def steps(self, count: int) -> Iterator[Step]:
        """The next steps."""
        for _ in range(count):
            item = self._item()
            name = item.entry.id if isinstance(item, Put) else item.id
            yield partition_of(name), item

    def _item(self) -> Put | Remove | Vectors:
        random = self._random
        name = f"{random.choice(('mem', 'obs', 'obs', 'lsn'))}_{random.randrange(self._documents // 3):04d}"
        before = self._known.get(name)
        what = random.choices(("put", "update", "remove", "vectors"), (5, 3, 1, 3))[0]
        if what == "remove":
            self._known.pop(name, None)
            return Remove(name)
        if what == "vectors":
            rows = np.asarray([self._unit() for _ in range(random.choice((1, 1, 2)))], "<f2")
            return Vectors(name, random.choice((MODEL, MODEL, MODEL, "other")), rows.shape[1], rows.tobytes())
        entry = self._entry(name)
        if before is not None and (what == "update" or before.terms == entry.terms):
            entry = changed(before, entry)
        self._known[name] = entry
        return Put(entry)

    def _unit(self) -> list[float]:
        row = np.asarray([self._random.gauss(0, 1) for _ in range(4)])
        return (row / np.linalg.norm(row)).tolist()

    def _entry(self, name: str) -> IndexEntry:
        random, number = self._random, int(name[-4:])
        some = ("a", "b", "a,b", "Ü x", "c" * 300)
        session = f"s{number % 8}" if name.startswith("obs") else ""  # all of a session are in one partition
        return of_its_kind(
            IndexEntry(
                id=name, kind="", terms=" ".join(random.choices(WORDS, (9, 5, 3, 2, 1), k=random.randint(1, 8))),
                episode=session, tenant="other" if number % 9 == 0 else "default",
                project=random.choice(("", "atlas", "atlas", "blue whale")), session_id=session,
                agent_id=random.choice(("", "ada", "bob")), user_id=random.choice(("", "ada", "bob")),
                tags=random.sample(some, random.randrange(3)), occurred_ms=random.randrange(1, 60),
                recorded_ms=random.randrange(1, 60), retired_ms=random.choice((0, 0, 0, 0, random.randrange(1, 60))),
                expires_ms=random.choice((0, 0, 0, random.randrange(1, 90))),
                importance=random.choice((1.0, 5.0, 5.0, 7.5, 10.0)), confidence=random.choice((0.3, 0.5, 1.0)),
                audience=random.choice(([], [], [], ["ada"], ["ada", "bob"], [""])),
                types=random.sample(some, random.randrange(2)), files=random.sample(some, random.randrange(3)),
                concepts=random.sample(some, random.randrange(2)),
                renewed_ms=random.choice((0, random.randrange(1, 60))),
                visibility=random.choice(("", "private", "public")),
            )
        )  # fmt: skip

    def filter(self) -> Filter:
        """A filter with a few of its fields."""
        random, some = self._random, ("a", "b", "a,b", "Ü x", "c" * 300, "x")
        may_be: dict[str, Any] = {
            "project": random.choice(("", "atlas", "nothing")),
            "projects": random.sample(("", "atlas", "blue whale"), 2),
            "within": random.sample(("", "atlas", "blue whale"), 2), "agent_id": random.choice(("ada", "bob")),
            "only_agent": random.choice(("ada", "bob")), "session_id": random.choice(("s1", "s2")),
            "user_id": random.choice(("ada", "bob")),
            "kinds": random.sample(("memory", "observation", "lesson"), random.randint(1, 2)),
            "tags": random.sample(some, random.randint(1, 2)), "any_tags": random.sample(some, 2),
            "types": random.sample(some, 2), "files": random.sample(some, 2), "concepts": random.sample(some, 2),
            "visibility": random.choice(("private", "public")),
            "any_of": [(name, random.choice(some)) for name in random.sample(("tag", "type", "file", "concept"), 2)],
            "without": [("tag", random.choice(some)), (random.choice(("agent", "project")), "atlas")],
            "from_ms": random.randrange(60), "to_ms": random.randrange(60), "as_of_ms": random.randrange(90),
            "reader": random.choice(("ada", "bob", "eve")), "operator": True, "retired": True,
            "importance_to": random.choice((1.0, 5.0, 7.4)),
        }  # fmt: skip
        chosen = random.sample([*may_be], random.choice((0, 1, 1, 2, 2, 3)))
        tenant = random.choice(("default", "default", "default", "other", "nobody"))
        return Filter(tenant=tenant, now_ms=random.randrange(90), **{name: may_be[name] for name in chosen})
