"""The embedding queue of a worker, with an embedder that does not change."""

from concurrent.futures import Executor

from ingest.platform.connections import Client
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.vectors.embedder import Embedder, FixedEmbedder


def embedding_queue(redis: Client, embedder: Embedder, executor: Executor) -> EmbeddingQueue:
    """What embeds what is queued."""
    return EmbeddingQueue(redis, FixedEmbedder(embedder), DocumentVectors(redis, executor))
