"""The Triton kernels. Float32 is computed in double and rounded once; 16-bit types in float32."""

import triton
import triton.language as tl


@triton.jit
def _wide(x):
    """The type that an element is computed in."""
    return x.to(tl.float64) if x.dtype == tl.float32 else x.to(tl.float32)


@triton.jit
def _normal(x):
    """The density without 1 / sqrt(2 pi), and the distribution function; see native.c."""
    a = tl.abs(x)
    t = 1.0 / (1.0 + 0.225 * a)
    p = -0.00969404056085589 * t + 0.05996042485599431
    p = p * t - 0.14531901779938844
    p = p * t + 0.17466342749403546
    p = p * t - 0.1349866181264852
    p = p * t + 0.09523561189234069
    p = p * t + 0.0012942656120620913
    p = p * t + 0.05623852056989739
    p = p * t + 0.06153383855139633
    p = p * t + 0.0763498158116112
    p = p * t + 0.08519881860856297
    p = p * t + 0.08976296064216485
    p = p * t + 0.08976199241680122
    density = tl.exp(-0.5 * x * x)
    tail = density * t * p
    return density, tl.where(x > 0, 1.0 - tail, tail)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def gelu(x_at, out_at, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = _wide(tl.load(x_at + at, inside, other=0.0))
    if TANH:
        y = x * _sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    else:
        _, phi = _normal(x)
        y = x * phi
    tl.store(out_at + at, y.to(out_at.dtype.element_ty), inside)


@triton.jit
def gelu_backward(grad_at, x_at, out_at, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    grad = _wide(tl.load(grad_at + at, inside, other=0.0))
    x = _wide(tl.load(x_at + at, inside, other=0.0))
    if TANH:
        s = _sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        curved = x * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
        slope = s + tl.where(tl.abs(x) > 40.0, 0.0 * x, curved)
    else:
        density, phi = _normal(x)
        slope = phi + x * density * 0.3989422804014327
    tl.store(out_at + at, (grad * slope).to(out_at.dtype.element_ty), inside)


@triton.jit
def swiglu(gate_at, up_at, out_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = _wide(tl.load(gate_at + at, inside, other=0.0))
    up = _wide(tl.load(up_at + at, inside, other=0.0))
    tl.store(out_at + at, (gate * _sigmoid(gate) * up).to(out_at.dtype.element_ty), inside)


@triton.jit
def swiglu_backward(grad_at, gate_at, up_at, of_gate_at, of_up_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    grad = _wide(tl.load(grad_at + at, inside, other=0.0))
    gate = _wide(tl.load(gate_at + at, inside, other=0.0))
    up = _wide(tl.load(up_at + at, inside, other=0.0))
    s = _sigmoid(gate)
    of_gate = grad * up * s * (1.0 + gate * (1.0 - s))
    tl.store(of_gate_at + at, of_gate.to(of_gate_at.dtype.element_ty), inside)
    tl.store(of_up_at + at, (grad * gate * s).to(of_up_at.dtype.element_ty), inside)


@triton.jit
def softmax(x_at, out_at, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = _wide(tl.load(x_at + row + at, inside, other=float("-inf")))
    e = tl.exp(x - tl.max(x, 0))
    y = e / tl.sum(e, 0)
    tl.store(out_at + row + at, y.to(out_at.dtype.element_ty), inside)


@triton.jit
def softmax_backward(grad_at, y_at, out_at, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    grad = _wide(tl.load(grad_at + row + at, inside, other=0.0))
    y = _wide(tl.load(y_at + row + at, inside, other=0.0))
    dx = y * (grad - tl.sum(grad * y, 0))
    tl.store(out_at + row + at, dx.to(out_at.dtype.element_ty), inside)


@triton.jit
def norm(
    x_at, residual_at, weight_at, bias_at, out_at, total_at, columns, eps,
    CENTRED: tl.constexpr, RESIDUAL: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = _wide(tl.load(x_at + row + at, inside, other=0.0))
    if RESIDUAL:
        x += _wide(tl.load(residual_at + row + at, inside, other=0.0))
        tl.store(total_at + row + at, x.to(total_at.dtype.element_ty), inside)
    if CENTRED:
        x = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    y = x / tl.sqrt(tl.sum(x * x, 0) / columns + eps)
    if WEIGHT:
        y *= _wide(tl.load(weight_at + at, inside, other=0.0))
    if BIAS:
        y += _wide(tl.load(bias_at + at, inside, other=0.0))
    tl.store(out_at + row + at, y.to(out_at.dtype.element_ty), inside)


@triton.jit
def norm_backward(
    grad_at, grad_total_at, x_at, weight_at, out_at, of_weight_at, of_bias_at,
    rows, columns, eps,
    CENTRED: tl.constexpr, TOTAL: tl.constexpr, WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program works on every n-th row and keeps its part of the weight's gradient."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    first = tl.program_id(0)
    if WEIGHT:
        weight = _wide(tl.load(weight_at + at, inside, other=0.0))
    of_weight = _wide(tl.zeros((BLOCK,), x_at.dtype.element_ty))
    of_bias = of_weight
    row = first.to(tl.int64) * columns
    for _ in range(first, rows, tl.num_programs(0)):
        x = _wide(tl.load(x_at + row + at, inside, other=0.0))
        grad = _wide(tl.load(grad_at + row + at, inside, other=0.0))
        if CENTRED:
            x = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / columns + eps)
        x = x * scale
        of_weight += grad * x
        of_bias += grad
        if WEIGHT:
            grad *= weight
        dx = grad - x * (tl.sum(grad * x, 0) / columns)
        if CENTRED:
            dx -= tl.sum(grad, 0) / columns
        dx *= scale
        if TOTAL:
            dx += _wide(tl.load(grad_total_at + row + at, inside, other=0.0))
        tl.store(out_at + row + at, dx.to(out_at.dtype.element_ty), inside)
        row += tl.num_programs(0).to(tl.int64) * columns
    part = first.to(tl.int64) * columns + at
    tl.store(of_weight_at + part, of_weight, inside)
    tl.store(of_bias_at + part, of_bias, inside)


@triton.jit
def rotary(x_at, cosine_at, sine_at, out_at, length, half, sign, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < half
    turn = (index % length) * half + at
    low = _wide(tl.load(x_at + index * 2 * half + at, inside, other=0.0))
    high = _wide(tl.load(x_at + index * 2 * half + half + at, inside, other=0.0))
    cosine = tl.load(cosine_at + turn, inside, other=0.0).to(low.dtype)
    sine = (tl.load(sine_at + turn, inside, other=0.0) * sign).to(low.dtype)
    to = out_at + index * 2 * half + at
    tl.store(to, (low * cosine - high * sine).to(out_at.dtype.element_ty), inside)
    tl.store(to + half, (high * cosine + low * sine).to(out_at.dtype.element_ty), inside)
