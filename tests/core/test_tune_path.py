"""How many files a reader visits from `hotlap tune` on the command line to the recipe written."""

from pathlib import Path

from import_graph import import_graph

import hotlap

START = "hotlap.cli.tune"
MAIN_PATH = ("hotlap.cli", "hotlap.tune", "hotlap.trial")
"""The verb, the search, and the processes that it races; what profiles, judges source, isolates,
races to a target and prints stands behind one call each."""
MOST_FILES = 24


def test_the_way_of_a_tune_does_not_get_longer(capsys) -> None:  # type: ignore[no-untyped-def]
    graph = import_graph(Path(hotlap.__file__).parent)
    visited = [START]
    for name in visited:
        visited += sorted(
            other
            for other in graph[name] - set(visited)
            if other.startswith(tuple(f"{half}." for half in MAIN_PATH))
        )
    with capsys.disabled():
        print(f"\nfiles from {START} to the recipe: {len(visited)}")
    assert len(visited) <= MOST_FILES, visited
