"""Rebuilds: documents from the log, or vectors of another embedder, made beside the live ones and switched to.

Hands the worker the job and the strategy of each kind of rebuild. Without this room a changed fold or embedder needs an
empty server and a replay without readers.
"""

from projections.rebuilding.documents import DocumentRebuild
from projections.rebuilding.embeddings import EmbeddingRebuild, EngineEmbeddingRebuild
from projections.rebuilding.job import RebuildJob
from projections.rebuilding.rebuilds import Rebuilds

__all__ = ["DocumentRebuild", "EmbeddingRebuild", "EngineEmbeddingRebuild", "RebuildJob", "Rebuilds"]
