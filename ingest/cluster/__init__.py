"""A client of a Redis Cluster that offers what `ingest.connections.Client` names."""

from ingest.cluster.client import ClusterClient, parse_cluster_url
from ingest.cluster.pipelines import SpreadPipeline
from ingest.cluster.slots import KeysApart
from ingest.cluster.topology import ClusterChanged

__all__ = ["ClusterChanged", "ClusterClient", "KeysApart", "SpreadPipeline", "parse_cluster_url"]
