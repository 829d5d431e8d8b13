"""From what the probe saw to phases, shares of the machine's limits, and findings."""
