"""The arq jobs, one file each."""
