"""Races to a target: which of two commands, or techniques, reaches it first."""
