"""The index of a process: lexical, vectors and filters, its snapshots, and how results are ranked."""
