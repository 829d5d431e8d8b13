import torch


def attend(q, k, v, equation):
    context = torch.einsum("bmhd,bmhe->bhde", k, v)
    out = torch.einsum("bnhd,bhde->bnhe", q, context)
    return torch.einsum(equation, out, q, k), torch.einsum("ii->i", v)
