"""The largest batch that fits and the fastest, found on the user's unmodified script."""
