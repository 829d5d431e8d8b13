import torch
from torch.func import grad, hessian, jacrev, vmap


def sliced(p, x, v):
    jac = jacrev(score, argnums=1)(p, x)  # found: whole_jacobian
    return torch.einsum("i,ij,j->", v, jac, v)


def pushed(x, v):
    return hessian(energy)(x) @ v  # found: whole_jacobian


batched = vmap(jacrev(flow))


def of_batch(x, v):
    j = batched(x)  # found: whole_jacobian
    return torch.bmm(j, v.unsqueeze(-1)).squeeze(-1)
