"""The text of an observation: its title, facts, concepts and files."""
