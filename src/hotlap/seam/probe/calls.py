"""Model calls of a program that generates text: prompts (prefill), single tokens (decode)."""

from collections.abc import Iterable

from hotlap.seam.probe.models import first_tensor

MOST = 4096
NANO = 1e-9
PREFILL, DECODE, UNCACHED = "prefill", "decode", "decode without a KV cache"


class Calls:
    """Parts calls by the length of their token input.

    One token: decode. One token more than in the call before, the same batch: decode without a KV
    cache. Anything else: prefill.
    """

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {}
        self._tokens: dict[str, int] = {}
        self._before = (0, 0)

    def note(self, arguments: Iterable[object], time: int) -> None:
        """A call with these arguments took so many nanoseconds."""
        tokens = first_tensor(arguments)
        if tokens is None or tokens.dim() != 2 or tokens.is_floating_point():
            return
        batch, length = tokens.shape
        kind = PREFILL
        if length == 1:
            kind = DECODE
        elif (batch, length - 1) == self._before:
            kind = UNCACHED
        self._before = (batch, length)
        times = self._times.setdefault(kind, [])
        if len(times) < MOST:
            times.append(time)
            made = batch * length if kind == PREFILL else batch
            self._tokens[kind] = self._tokens.get(kind, 0) + made

    @property
    def uncached(self) -> bool:
        """Whether most calls compute a whole text again for one more token."""
        found = {kind: len(times) for kind, times in self._times.items()}
        return found.get(UNCACHED, 0) > sum(found.values()) / 2

    def result(self) -> dict[str, dict[str, float]]:
        """By kind: calls, median, 95th percentile (seconds) and tokens/s; empty without decoding.

        Calls are timed as the host sees them.
        """
        if not {DECODE, UNCACHED} & set(self._times):
            return {}
        return {kind: self._summary(kind, sorted(times)) for kind, times in self._times.items()}

    def _summary(self, kind: str, times: list[int]) -> dict[str, float]:
        return {
            "calls": len(times),
            "p50": times[len(times) // 2] * NANO,
            "p95": times[int(0.95 * (len(times) - 1))] * NANO,
            "tokens": self._tokens[kind] / max(1, sum(times)) / NANO,
        }
