"""The Valkey that `mnemolog up` starts: the server, its append-only file, and the acknowledged positions."""
