"""The write side: what can be said, whether it may be, the log it is said to."""
