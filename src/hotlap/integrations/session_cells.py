"""Which cells of a live session a cell stands on."""

from collections.abc import Iterable, Sequence

from hotlap.notebook.cells import bound_names, changed_names, needed_names


def preparing(history: Iterable[tuple[int, str]], parts: Sequence[str]) -> list[tuple[int, str]]:
    """The cells of a session, with their numbers, that are run again before the parts of one.

    Not cells that were raced or tuned. A cell that was profiled, and one with the text of a part,
    only if it binds a name that is needed later: else it would train in front of each race.
    """
    found: list[tuple[int, str]] = []
    needed = set().union(*map(needed_names, parts))
    for number, source in reversed(list(history)):
        if _was_raced(source):
            continue
        first, _, body = source.lstrip().partition("\n")
        profiled = first.startswith("%%hotlap")
        text = (body if profiled else source).strip()
        tested = profiled or text in {part.strip() for part in parts}
        if tested and not bound_names(text) & needed:
            continue
        found.append((number, source))
        needed |= needed_names(text)
    return found[::-1]


def behind(history: Iterable[tuple[int, str]], cell: str) -> list[tuple[int, str]]:
    """The cells of a session, with their numbers, that made the names which a cell uses.

    Of the cells that gave a name its value the newest counts, so that what was edited and run again
    stands there once. One that changes what it bound itself is preceded by the one before it. Cells
    that import everything of a module, or set something of torch's, always count.
    """
    cells = [(number, source) for number, source in history if not _was_raced(source)]
    bound = [bound_names(source) for _, source in cells]
    kept = {
        at
        for at, (_, source) in enumerate(cells)
        if "*" in bound[at] or "torch" in changed_names(source)
    }
    wanted = [(len(cells), name) for name in needed_names(cell)]
    wanted += [(at, name) for at in kept for name in needed_names(cells[at][1])]
    while wanted:
        at, name = wanted.pop()
        end = at if at < len(cells) and name in bound[at] else len(cells)
        made = next((one for one in reversed(range(end)) if name in bound[one]), None)
        if made is not None and made not in kept:
            kept.add(made)
            wanted += [(made, other) for other in needed_names(cells[made][1])]
    return [cells[at] for at in sorted(kept)]


def _was_raced(source: str) -> bool:
    """Whether a cell was raced or tuned: it ran in other processes."""
    return source.lstrip().startswith(("%%hotlap race", "%%hotlap tune"))
