import torch
from torch.func import jacrev, vmap


def pulled(f, x, v):
    j = torch.autograd.functional.jacobian(f, x, create_graph=True)  # found: whole_jacobian
    left = v @ j
    return left + j.T.mv(v)


def curvature(f, x, v):
    return v.dot(torch.autograd.functional.hessian(f, x).mv(v))  # found: whole_jacobian


def of_each_pair(f, x, v):
    return vmap(vmap(jacrev(f)))(x) @ v  # found: whole_jacobian
