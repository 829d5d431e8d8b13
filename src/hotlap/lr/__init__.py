"""The learning-rate range test of a command, from outside."""
