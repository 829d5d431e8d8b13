"""The planner: which parallel layouts of a model fit a cluster, and how fast each would be."""
