"""Snapshots of the index: a folder that a replica can start from instead of reading the whole feed. Always disposable.

A snapshot is complete once its folder has its final name; it is written beside and renamed. Its manifest says which
model its vectors are of and where in every partition's feed it stands; a file that was altered is refused by its hash.
"""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import zstandard
from msgspec import Struct

from ingest.errors import MnemologError
from ingest.log.position import START, Position
from projections.index.columns import Column
from projections.index.filters import BitMap, Facets
from projections.index.lexical import link_or_copy
from projections.index.replica import IndexReplica
from projections.index.vectors import Vectors

FORMAT = 1
KEPT = 2
"""Snapshots kept: the newest, and one more for a replica that is reading it."""
_COLUMNS = (
    "partition", "author", "episode", "sequence", "occurred_ms", "recorded_ms", "retired_ms", "expires_ms",
    "importance", "confidence",
)  # fmt: skip
_TEXTS = "texts.msgpack.zst"


class UnusableSnapshot(MnemologError):
    """A snapshot is of another format or model, torn, or altered; it is passed over."""

    code = "unusable_snapshot"


class FeedPosition(Struct, frozen=True, kw_only=True):
    """Where a replica stands in one partition: feed entry read last, and the log position that covers."""

    generation: int = 1
    feed: str = "0-0"
    covers: str = str(START)

    @property
    def position(self) -> Position:
        """The log position covered."""
        return Position.parse(self.covers)


class Manifest(Struct, frozen=True, kw_only=True):
    """What a snapshot is. `files` maps each file to the SHA-256 of its bytes."""

    format: int
    name: str
    model: str
    dimensions: int
    documents: int
    partitions: dict[int, FeedPosition]
    files: dict[str, str]


class _Texts(Struct, array_like=True):
    ids: list[str]
    terms: list[bytes]
    facets_of: list[tuple[str, ...]]
    authors: list[str]
    episode_names: list[str]
    episodes: list[list[int]]
    facets: dict[str, bytes]
    alive: bytes


def save(index: IndexReplica, at: Mapping[int, FeedPosition], folder: Path, name: str) -> Manifest:
    """Write the index as snapshot `name` below `folder`. Runs in the thread that owns the index."""
    index.commit()
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f".writing-{name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    index.lexical.copy_to(work / "lexical")
    index.vectors.save(work)
    for column in _COLUMNS:
        np.save(work / f"{column}.npy", getattr(index, column).values)
    texts = _Texts(
        index.ids, index.terms, index.facets_of, index.authors, list(index.episode_of), index.episodes,
        index.facets.dump(), index.alive.serialize(),
    )  # fmt: skip
    (work / _TEXTS).write_bytes(zstandard.compress(msgspec.msgpack.encode(texts)))
    manifest = Manifest(
        format=FORMAT,
        name=name,
        model=index.model,
        dimensions=index.vectors.dimensions,
        documents=len(index),
        partitions=dict(at),
        files={str(path.relative_to(work)): _sha256(path) for path in sorted(work.rglob("*")) if path.is_file()},
    )
    (work / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    work.rename(folder / name)
    return manifest


def newest(folder: Path, model: str) -> tuple[Path, Manifest] | None:
    """The newest snapshot made with `model`; None when there is none."""
    for path in sorted(folder.glob("[!.]*"), reverse=True):
        try:
            manifest = msgspec.json.decode((path / "manifest.json").read_bytes(), type=Manifest)
        except (OSError, msgspec.MsgspecError):
            continue
        if manifest.format == FORMAT and manifest.model == model:
            return path, manifest
    return None


def load(path: Path, manifest: Manifest, work: Path) -> IndexReplica:
    """The index of a snapshot, working in the new folder `work`. Raises UnusableSnapshot for an altered file."""
    try:
        for name, expected in manifest.files.items():
            if _sha256(path / name) != expected:
                raise UnusableSnapshot(f"{path / name} was altered")
        shutil.rmtree(work, ignore_errors=True)
        link_or_copy(path / "lexical", work)
        packed = zstandard.decompress((path / _TEXTS).read_bytes())
        texts = msgspec.msgpack.decode(packed, type=_Texts)
        index = IndexReplica(work, manifest.dimensions, manifest.model)
        for column in _COLUMNS:
            setattr(index, column, Column.of(np.load(path / f"{column}.npy")))
        index.vectors = Vectors.load(path, manifest.dimensions)
    except OSError as error:
        raise UnusableSnapshot(f"{path} is incomplete: {error}") from error
    index.ids, index.terms, index.facets_of = texts.ids, texts.terms, texts.facets_of
    index.ordinal_of = {name: ordinal for ordinal, name in enumerate(texts.ids) if name}
    index.authors, index.episodes = texts.authors, texts.episodes
    index.author_of = {name: place for place, name in enumerate(texts.authors)}
    index.episode_of = {name: place for place, name in enumerate(texts.episode_names)}
    index.facets, index.alive = Facets.load(texts.facets), BitMap.deserialize(texts.alive)
    return index


def prune(folder: Path, kept: int = KEPT) -> None:
    """Delete all but the newest snapshots, and what an interrupted one left."""
    complete = sorted(folder.glob("[!.]*"))
    for path in [*complete[:-kept], *folder.glob(".writing-*")]:
        shutil.rmtree(path, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
