"""A progress bar in the terminal, as a logger."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class Progress:
    """Shows steps, loss, steps a second and the time left; needs `rich`.

    Args:
        total: optimizer steps in all; None: unknown, and so is the time left.
        console: a console of rich's; by default one on stderr.
    """

    def __init__(self, total: int | None = None, console: "Console | None" = None) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("step {task.completed:.0f}" + (f"/{total}" if total else "")),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[words]}"),
            progress.TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=total, words="")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Move the bar on; it appears with the first figures."""
        self._bar.start()
        words = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        self._bar.update(self._task, completed=step, words=words)

    def close(self) -> None:
        """Leave the last line standing."""
        self._bar.stop()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
