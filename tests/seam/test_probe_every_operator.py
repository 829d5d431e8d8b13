"""Torch's own test cases of its operators and modules, run through the probe.

An operator of which a diagnosis cannot make sense ends the search for work in vain silently: all of
torch's operators have to pass, not those alone that somebody thought of.
"""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from hotlap.seam.probe.invariants import _Signatures

pytestmark = pytest.mark.slow
UNKNOWN = {"hash_tensor": "its result has the type of no number"}
SAMPLES = 3


@pytest.fixture
def followed():
    """The mode that follows a step's operators, whose failures are those of the test."""
    mode = _Signatures()
    mode.off = False
    note = mode._note
    failures = []

    def noted(run, func, args, kwargs, result):
        try:
            note(run, func, args, kwargs, result)
        except Exception as error:
            failures.append((str(func), repr(error)))
            raise

    mode._note = noted
    yield mode
    assert not failures
    assert not mode._missed


def both_steps(mode, call):
    """A call in two steps: what the first shows decides what is followed in the second.

    Of what torch itself refuses on this machine nothing is asked.
    """
    try:
        call()
    except Exception:
        return
    for _ in range(2):
        with mode:
            call()
        named = (run.name for run in mode._runs if run.signature is not None)
        mode.expected = set(named)
        missed = mode._missed
        mode.discarded()
        mode.restart()
        assert not missed


@pytest.mark.parametrize("op", [pytest.param(op, id=op.formatted_name) for op in op_db])
@pytest.mark.filterwarnings("ignore")
def test_an_operator_is_followed(op, followed):
    if op.name in UNKNOWN:
        pytest.skip(UNKNOWN[op.name])
    dtypes = op.supported_dtypes("cpu")
    if not dtypes:
        pytest.skip("it does not run on the CPU")
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    for requires_grad in {False, dtype in op.supported_backward_dtypes("cpu")}:
        samples = op.sample_inputs("cpu", dtype, requires_grad=requires_grad)
        for sample, _ in zip(samples, range(SAMPLES), strict=False):
            both_steps(followed, lambda s=sample: op.op(s.input, *s.args, **s.kwargs))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.formatted_name) for case in module_db])
@pytest.mark.filterwarnings("ignore")
def test_a_module_is_followed(case, followed):
    inputs = case.module_inputs_func(
        case, device="cpu", dtype=torch.float32, requires_grad=True, training=True
    )
    for sample, _ in zip(inputs, range(SAMPLES), strict=False):
        made, given = sample.constructor_input, sample.forward_input
        if given is None:
            continue
        module = case.module_cls(*made.args, **made.kwargs)
        both_steps(followed, lambda m=module, g=given: m(*g.args, **g.kwargs))
