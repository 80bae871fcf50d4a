"""A store for LangGraph: `graph.compile(store=MnemologStore(Mnemolog()))`. Needs the package `langgraph`.

An item is a memory whose content is the value as JSON; its tags are the prefixes of its namespace, and the namespace
with the key. Putting a key again makes a new version. A search with a query is a recall; others read the project."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, SearchItem, SearchOp

from mnemolog_client import Mnemolog, answers

COMPARE: dict[str, Any] = {"$eq": eq, "$ne": ne, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


class MnemologStore(BaseStore):
    """Items of one project. The asynchronous methods run in a thread."""

    def __init__(self, client: Mnemolog, project: str = "langgraph") -> None:
        self._client, self._project = client, project

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _done(self, op: Op) -> Any:
        match op:
            case SearchOp():
                tags = [f"ns:{json.dumps(op.namespace_prefix)}"] if op.namespace_prefix else []
                items = self._recalled(op.query, tags) if op.query else self._listed(tags)
                chosen = (item for item in items if _fits(item.value, op.filter or {}))
                return list(islice(chosen, op.offset, op.offset + op.limit))
            case ListNamespacesOp():
                names = {item.namespace for item in self._listed([])}
                matching = [name for name in names if all(_matches(name, rule) for rule in op.match_conditions or ())]
                return sorted({name[: op.max_depth] for name in matching})[op.offset : op.offset + op.limit]
            case GetOp() | PutOp():
                tags = [f"key:{json.dumps((*op.namespace, op.key))}"]
                item = max(self._recalled(op.key, tags, True), key=lambda hit: (hit.updated_at, hit.id), default=None)
                return self._put(op, tags, item) if isinstance(op, PutOp) else item

    def _put(self, op: PutOp, tags: list[str], item: "_Item | None") -> None:
        fields: Any = {"title": op.key, "content": json.dumps(op.value, ensure_ascii=False)}
        if item is not None and op.value is None:
            self._client.memories.delete(item.id)
            self._done(op)  # a version by another agent, or a second item with the key, may be left
        elif item is not None:
            self._client.memories.revise(item.id, **fields)
        elif op.value is not None:
            tags += [f"ns:{json.dumps(op.namespace[: depth + 1])}" for depth in range(len(op.namespace))]
            fields |= {"metadata": {"key": op.key, "namespace": json.dumps(op.namespace)}, "tags": tags}
            self._client.memories.create(project=self._project, keep_duplicates=True, **fields)

    def _recalled(self, query: str, tags: list[str], or_listed: bool = False) -> "Iterator[_Item]":
        fields: Any = {"project": self._project, "kinds": ["memory"], "min_confidence": 0.0, "fold": False}
        answer = self._client.recall(query, tags=tags, limit=200, **fields)
        if or_listed and answer.degraded:
            return self._listed(tags)  # a partial index lacks items
        return (_Item(self._client.memories.get(hit.id), hit.score) for hit in answers.results_of(answer))

    def _listed(self, tags: list[str]) -> "Iterator[_Item]":
        memories = self._client.memories.list(self._project, latest=True, page_size=1_000)
        return (_Item(memory) for memory in memories if {*tags} <= {*memory.tags} and "namespace" in memory.metadata)


class _Item(SearchItem):
    def __init__(self, memory: answers.Memory, score: float | None = None) -> None:
        namespace, key = tuple(json.loads(memory.metadata["namespace"])), memory.metadata["key"]
        super().__init__(namespace, key, json.loads(memory.content), memory.recorded_at, memory.updated_at, score)
        self.id = memory.id


def _fits(value: Any, rule: Any) -> bool:
    if not hasattr(rule, "items"):
        return value == rule
    fields: Any = value if hasattr(value, "items") else {}
    return all(COMPARE[key](value, arg) if key in COMPARE else _fits(fields.get(key), arg) for key, arg in rule.items())


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    side = namespace[-len(path) :] if condition.match_type == "suffix" else namespace[: len(path)]
    return len(side) == len(path) and all(part in ("*", label) for part, label in zip(path, side, strict=True))
