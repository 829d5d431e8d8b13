"""Callbacks of trainers that profile some steps of a run and write what they cost.

```python
from hotlap.integrations.trainers import huggingface_callback

trainer.add_callback(huggingface_callback())
```
"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.integrations.live import LiveProfile, profiling

if TYPE_CHECKING:
    from lightning.pytorch import Trainer
    from transformers import TrainerState

SKIPPED_STEPS = 10
"""Steps that pass before the profile begins: what is set up in them belongs to no step."""
STEPS = 100


class _Window:
    """A profile of a window of steps; written and shown when it closes."""

    def __init__(self, path: Path | str, skip: int, steps: int, *, show: bool) -> None:
        self.path, self.show = Path(path), show
        self.found: LiveProfile | None = None
        self._first, self._last = skip, skip + steps
        self._seen = 0
        self._block = ExitStack()

    def step_ends(self) -> None:
        """Count a step of the optimizer; open the window at its first, close it after its last."""
        self._seen += 1
        if self._seen == self._first or (not self._first and self._seen == 1):
            self.found = self._block.enter_context(profiling(show=False))
        elif self._seen == self._last:
            self.close()

    def close(self) -> None:
        """End the profile, if one is going on: write it, and show it."""
        found, self._seen = self.found, self._last
        if found is None or found.profile is not None or found.problem:
            return
        self._block.close()
        if found.profile is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            found.save(self.path)
        if self.show:
            found.show()


def huggingface_callback(
    path: Path | str = "hotlap-profile.json",
    *,
    skip: int = SKIPPED_STEPS,
    steps: int = STEPS,
    show: bool = True,
) -> object:
    """A `TrainerCallback` that profiles `steps` optimizer steps after the first `skip`.

    The document goes to `path`; `show` prints it as `hotlap profile` does. Only the first process
    of several writes.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import TrainerCallback

    window = _Window(path, skip, steps, show=show)

    class HotlapCallback(TrainerCallback):
        """Profiles a window of the training."""

        def on_step_end(
            self, args: object, state: "TrainerState", control: object, **_: object
        ) -> None:
            """Count the step."""
            if state.is_world_process_zero:
                window.step_ends()

        def on_train_end(self, args: object, state: object, control: object, **_: object) -> None:
            """End a window that the training was too short for."""
            window.close()

    return HotlapCallback()


def lightning_callback(
    path: Path | str = "hotlap-profile.json",
    *,
    skip: int = SKIPPED_STEPS,
    steps: int = STEPS,
    show: bool = True,
) -> object:
    """A Lightning `Callback` that profiles `steps` training batches after the first `skip`.

    The document goes to `path`; `show` prints it as `hotlap profile` does. Only the first process
    of several writes.

    Raises:
        ImportError: lightning is not installed.
    """
    from lightning.pytorch import Callback

    window = _Window(path, skip, steps, show=show)

    class HotlapCallback(Callback):
        """Profiles a window of the training."""

        def on_train_batch_end(self, trainer: "Trainer", *_: object) -> None:
            """Count the batch."""
            if trainer.is_global_zero:
                window.step_ends()

        def on_train_end(self, trainer: object, module: object) -> None:
            """End a window that the training was too short for."""
            window.close()

        def on_exception(self, trainer: object, module: object, error: BaseException) -> None:
            """End the window: what was seen until then is worth writing."""
            window.close()

    return HotlapCallback()
