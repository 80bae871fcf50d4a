"""How live workers share the partitions. Pure: all who know the same workers come to the same shares."""

from collections.abc import Sequence


def share_of(worker: str, workers: Sequence[str], partitions: int) -> int:
    """How many partitions a worker is to run; the shares of all add up to `partitions` and differ by one at most.

    A worker that is not among them takes a share as if it were.
    """
    everyone = sorted({*workers, worker})
    each, left = divmod(partitions, len(everyone))
    return each + (everyone.index(worker) < left)
