"""One file for each `Wrap` move: how it is written into source, and when it is left to a person."""
