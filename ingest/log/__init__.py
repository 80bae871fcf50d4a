"""The log: partitions of Redis Streams behind one protocol."""
