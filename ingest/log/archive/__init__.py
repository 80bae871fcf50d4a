"""The archive: the beginning of the log in sealed segments, on disk or in an object store, so that Redis can drop
them."""
