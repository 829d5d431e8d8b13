"""Keeps trials from changing the user's files: overlay, Landlock, or a guard inside Python."""
