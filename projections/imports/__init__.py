"""What other memory systems know, as our commands: a file a system, each a pure mapping of a row to what it says."""
