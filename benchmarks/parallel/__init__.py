"""Training over several ranks: what it survives, and what it costs."""
