"""Documents: state and evolve of every noun, one file each."""
