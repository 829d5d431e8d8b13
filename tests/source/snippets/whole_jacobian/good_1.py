import torch
from torch.func import hessian, jacfwd, jacrev, jvp, vjp, vmap


def newton(f, x):
    h = hessian(f)(x)
    return torch.linalg.solve(h, torch.func.grad(f)(x))


def gauss_newton(f, x, r):
    j = jacrev(f)(x)
    return torch.linalg.solve(j.T @ j, j.T @ r)


def volume(f, x):
    j = vmap(jacfwd(f))(x)
    return torch.linalg.slogdet(j)[1]


def divergence(f, x):
    return jacrev(f)(x).trace()


def products(f, x, v):
    return jvp(f, (x,), (v,))[1] @ v, vjp(f, x)[1](v)[0] @ v
