"""What a Redis URL names. Pure, and without redis-py: the settings of every command are read with it."""

CLUSTER_SCHEMES = ("redis+cluster://", "rediss+cluster://")


def is_cluster(url: str) -> bool:
    """Whether it names a Redis Cluster: `redis+cluster://host:port,host:port`."""
    return url.startswith(CLUSTER_SCHEMES)
