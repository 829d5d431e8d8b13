import torch
from torch import einsum


def attend(q, k, v, keep):
    numerator = torch.einsum("bnhd,bmhd,bmhe->bnhe", q, k, v)  # found: einsum_of_several
    return numerator / einsum("bnhd,bmhd,bm->bnh", q, k, keep)[..., None]  # found: einsum_of_several
