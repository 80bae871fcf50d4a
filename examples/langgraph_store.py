"""A store for LangGraph, whose items are memories: `graph.compile(store=MnemologStore(Mnemolog()))`.

LangGraph is an optional import: without it the class works the same, and is no `BaseStore`. The project's tests run it
without LangGraph, with operations of the same fields as `langgraph.store.base` has; they do not run LangGraph.

| LangGraph | mnemolog |
|---|---|
| item | memory; its content is the value as JSON, its title the key |
| namespace `("users", "ada")` | tags `ns:users`, `ns:users/ada` |
| key | a tag, `key:users/ada/KEY` |
| put of a key that is there | a new version |
| put of None | the memory is forgotten, with its versions |
| search with a query | recall among the namespace's tags |
| search without | the listing of the project, filtered: for small stores |
"""

import asyncio
import importlib
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemolog_client import Mnemolog
from mnemolog_client.answers import Memory


class _Item(NamedTuple):
    """As LangGraph's, where that is not installed."""

    value: dict[str, Any]
    key: str
    namespace: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


try:
    _langgraph: Any = importlib.import_module("langgraph.store.base")
except ImportError:
    _langgraph = None

_Found: Any = _langgraph.SearchItem if _langgraph else _Item
if TYPE_CHECKING:
    _Store = object
else:
    _Store = _langgraph.BaseStore if _langgraph else object

FOUND = 200
"""Recall answers no more."""


class MnemologStore(_Store):
    """Items of one project. Blocking; the asynchronous methods do the same in a thread."""

    def __init__(self, client: Mnemolog, project: str = "langgraph") -> None:
        self._client, self._project = client, project

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """The result of each operation, in order; each sees what those before it did."""
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """The same, without blocking the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _done(self, op: Any) -> Any:
        """Each kind of operation is recognized by the fields that only it has."""
        if hasattr(op, "namespace_prefix"):
            return self._search(op)
        if hasattr(op, "match_conditions"):
            return self._namespaces(op)
        known = self._known(op.namespace, op.key)
        if not hasattr(op, "value"):
            return None if known is None else _item(known)
        if op.value is None and known is not None:
            self._client.memories.delete(known.id)
        elif op.value is not None:
            self._put(op, known)
        return None

    def _put(self, op: Any, known: Memory | None) -> None:
        content = json.dumps(op.value, ensure_ascii=False)
        if known is not None:
            self._client.memories.revise(known.id, content=content, title=op.key)
            return
        self._client.memories.create(
            content,
            project=self._project,
            title=op.key,
            tags=[_key_tag(op.namespace, op.key), *_namespace_tags(op.namespace)],
            metadata={"key": op.key, "namespace": json.dumps(op.namespace)},
            keep_duplicates=True,
        )

    def _known(self, namespace: tuple[str, ...], key: str) -> Memory | None:
        """The latest version of the memory of a key: there is one of that tag, so that its rank does not matter."""
        tags = [_key_tag(namespace, key)]
        found = self._client.search(
            key, project=self._project, kinds=["memory"], tags=tags, limit=1, min_confidence=0.0, fold=False
        )
        return self._client.memories.get(found[0].id) if found else None

    def _latest(self) -> Iterator[Memory]:
        return self._client.memories.list(self._project, latest=True, page_size=1_000)

    def _search(self, op: Any) -> list[Any]:
        tags = _namespace_tags(op.namespace_prefix)[-1:]
        query = getattr(op, "query", None)
        if query:
            found = self._client.search(
                query, project=self._project, kinds=["memory"], tags=tags, limit=FOUND, min_confidence=0.0, fold=False
            )
            items = (_item(self._client.memories.get(one.id), one.score) for one in found)
        else:
            items = (_item(one) for one in self._latest() if set(tags) <= set(one.tags))
        wanted = (one for one in items if (op.filter or {}).items() <= one.value.items())
        return list(islice(wanted, op.offset, op.offset + op.limit))

    def _namespaces(self, op: Any) -> list[tuple[str, ...]]:
        found = {_namespace(one) for one in self._latest()}
        matching = {one for one in found if all(_matches(one, condition) for condition in op.match_conditions or ())}
        return sorted({one[: op.max_depth] for one in matching})[op.offset : op.offset + op.limit]


def _item(memory: Memory, score: float | None = None) -> Any:
    return _Found(
        value=json.loads(memory.content),
        key=memory.metadata["key"],
        namespace=_namespace(memory),
        created_at=memory.recorded_at,
        updated_at=memory.updated_at,
        score=score,
    )


def _namespace(memory: Memory) -> tuple[str, ...]:
    return tuple(json.loads(memory.metadata["namespace"]))


def _namespace_tags(namespace: tuple[str, ...]) -> list[str]:
    """A tag for each prefix, the whole namespace last."""
    return [f"ns:{'/'.join(namespace[: depth + 1])}" for depth in range(len(namespace))]


def _key_tag(namespace: tuple[str, ...], key: str) -> str:
    return f"key:{'/'.join((*namespace, key))}"


def _matches(namespace: tuple[str, ...], condition: Any) -> bool:
    """Whether a namespace begins, or ends, as the condition says; `*` is any label."""
    path: tuple[str, ...] = condition.path
    side = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(side) == len(path) and all(wanted in ("*", label) for wanted, label in zip(path, side, strict=True))
