"""Vectors: the protocol of embedders, how texts are cut into chunks, the order of the queue, static vectors."""
