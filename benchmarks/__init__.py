"""The project's own figures, each with a script here and its raw record under `results/`."""
