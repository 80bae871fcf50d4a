"""A client of a Redis Cluster that offers what `ingest.platform.connections.Client` names."""

from ingest.platform.cluster.client import ClusterClient, SpreadPipeline, parse_cluster_url
from ingest.platform.cluster.routing import KeysInDifferentSlots
from ingest.platform.cluster.topology import ClusterChanged

__all__ = ["ClusterChanged", "ClusterClient", "KeysInDifferentSlots", "SpreadPipeline", "parse_cluster_url"]
