"""Whether log, documents, listings, index and queues of a partition agree; what is safe to repair is repaired."""
