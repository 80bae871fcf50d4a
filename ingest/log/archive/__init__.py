"""The archive: the beginning of the log in sealed segments, on disk or in an object store; Redis lets it go."""
