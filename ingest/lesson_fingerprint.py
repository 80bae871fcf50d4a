"""What makes two lessons the same lesson."""

from hashlib import sha256


def fingerprint(content: str) -> str:
    """First 16 hex digits of the SHA-256 of the trimmed, lower-cased text (agentmemory's rule)."""
    return sha256(content.strip().lower().encode()).hexdigest()[:16]
