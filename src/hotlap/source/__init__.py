"""The source half: what can be seen without running, and the recipe written as a diff."""
