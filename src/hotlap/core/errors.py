"""Errors meant for the person who reads them: what, where, and what to do."""


class HotlapError(Exception):
    """A failure the user can act on; `hint` says how."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(HotlapError):
    """The command line or the recipe cannot be taken as it is."""


class NotReachedError(HotlapError):
    """The command ran, but no training step was seen in it."""


class TrialFailedError(HotlapError):
    """The user's command failed inside a trial; the message is its last words."""
