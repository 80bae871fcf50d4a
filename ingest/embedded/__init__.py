"""The Valkey that `mnemolog up` starts: the server, its append-only file, and what was acknowledged to it."""
