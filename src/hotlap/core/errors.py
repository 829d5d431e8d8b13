"""Errors meant for the person who reads them: what, where, and what to do."""

from collections.abc import Callable, Iterable


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


def did_you_mean(
    word: str, known: Iterable[str], shown: Callable[[str], str] = str, otherwise: str = ""
) -> str:
    """A question that names the closest of the known words, or two that are very close.

    Without a close one it is `otherwise`. `repr` as `shown` puts the words in quotes.
    """
    from difflib import get_close_matches  # most runs make no mistake

    words = [str(one) for one in known]
    close = get_close_matches(word.lower(), words, n=1, cutoff=0.5)
    close += get_close_matches(word.lower(), words, n=2, cutoff=0.8)[1:]
    return f"did you mean {' or '.join(map(shown, close))}?" if close else otherwise
