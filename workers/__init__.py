"""Motion: runners that fold the log into documents, and arq jobs."""
