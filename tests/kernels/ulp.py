"""Errors in units in the last place."""

import torch

DIGITS = {torch.float32: 23, torch.bfloat16: 7, torch.float16: 10, torch.float64: 52}


def ulp_error(value, exact, floor=0.0):
    """The largest error against `exact` (float64), in units in the last place of the dtype.

    A unit is that of the exact value, but of no value below `floor` (the size of terms that cancel)
    and of no subnormal number.
    """
    smallest = torch.finfo(value.dtype).tiny
    size = exact.abs().clamp(min=max(floor, smallest))
    unit = torch.exp2(torch.floor(torch.log2(size)) - DIGITS[value.dtype])
    finite = torch.isfinite(exact) & (exact.abs() < torch.finfo(value.dtype).max)
    error = (value.double() - exact).abs() / unit
    return error[finite].max().item() if finite.any() else 0.0
