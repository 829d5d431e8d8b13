import torch


class Ridge:
    def fit(self, x, y):
        gram = x.T @ x + self.penalty * torch.eye(x.shape[1])
        self.weight = gram.inverse() @ (x.T @ y)  # found: multiplied_inverse
        return torch.pinverse(x).mm(y)  # found: multiplied_inverse

    def whitened(self, factor, y):
        return torch.matmul(torch.cholesky_inverse(factor), y)  # found: multiplied_inverse
