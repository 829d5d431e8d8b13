"""Runs torch's own test cases of its operators and modules through the probe; lists what fails.

A program of its own: torch's test suite forbids to set the global flags of the process that imports
it.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from hotlap.seam.probe.invariants import _Signatures

UNKNOWN = {"hash_tensor"}  # its result has the type of no number
SAMPLES = 3

Case = tuple[str, Callable[[], object]]


class Followed(_Signatures):
    """The mode that follows a step's operators; what it cannot follow is in `failures`."""

    def __init__(self) -> None:
        super().__init__()
        self.off = False
        self.failures: list[str] = []

    def _note(self, run, func, args, kwargs, result):
        try:
            super()._note(run, func, args, kwargs, result)
        except Exception as error:
            self.failures.append(f"{func}: {error!r}")
            raise


def operators() -> Iterator[Case]:
    """The first cases of each operator that the CPU has, with gradients and without."""
    for op in op_db:
        dtypes = op.supported_dtypes("cpu")
        if op.name in UNKNOWN or not dtypes:
            continue
        dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
        for requires_grad in {False, dtype in op.supported_backward_dtypes("cpu")}:
            samples = op.sample_inputs("cpu", dtype, requires_grad=requires_grad)
            for one in islice(samples, SAMPLES):
                yield op.formatted_name, partial(op.op, one.input, *one.args, **one.kwargs)


def modules() -> Iterator[Case]:
    """The first cases of each module."""
    for case in module_db:
        inputs = case.module_inputs_func(
            case, device="cpu", dtype=torch.float32, requires_grad=True, training=True
        )
        for one in islice(inputs, SAMPLES):
            made, given = one.constructor_input, one.forward_input
            if given is not None:
                module = case.module_cls(*made.args, **made.kwargs)
                yield case.formatted_name, partial(module, *given.args, **given.kwargs)


def is_followed(mode: Followed, call: Callable[[], object]) -> bool:
    """Whether a call is followed in two steps: the first shows what is looked at in the second.

    Of what torch itself refuses on this machine nothing is asked.
    """
    try:
        call()
    except Exception:
        return True
    followed = True
    for _ in range(2):
        with mode:
            call()
        mode.expected = {run.name for run in mode._runs if run.signature is not None}
        followed &= not mode._missed
        mode.discarded()
        mode.restart()
    return followed


def main() -> int:
    """Print how many cases ran, and those that could not be followed."""
    warnings.simplefilter("ignore")
    failed, ran = [], 0
    for cases in (operators(), modules()):
        for name, call in cases:
            mode = Followed()
            ran += 1
            if not is_followed(mode, call):
                failed.append(f"{name}: {'; '.join(mode.failures)}")
    print(f"{ran} cases", *failed, sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
