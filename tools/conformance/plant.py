"""Replaces a text in every document that mnemolog stores, past its log: `python plant.py SOCKET TEXT PLANTED`.

Both texts must have the same length, because documents are stored with lengths.
"""

import sys

import redis


def plant(socket: str, text: str, planted: str) -> None:
    """Replace the text in documents and rows; logs, indexes and snapshots are left as they are."""
    store = redis.Redis(unix_socket_path=socket)
    for key in store.scan_iter("mnemolog:*:doc:*"):
        stored: bytes = store.get(key)  # pyright: ignore
        store.set(key, stored.replace(text.encode(), planted.encode()))


if __name__ == "__main__":
    plant(*sys.argv[1:])
