"""`mnemolog import SYSTEM`: takes over what another memory system knows, from its file, server or database."""
