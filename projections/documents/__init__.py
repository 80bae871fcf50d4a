"""Documents: the state of every noun, and how events change it; one file each."""
