import torch


class Model(torch.nn.Module):
    def loss(self, x, y):
        k = self.kernel(x, x)
        inverse = torch.inverse(k)  # found: multiplied_inverse
        fit = y.dot(inverse.mv(y))
        return fit + k.logdet() + self.prior.logdet()  # found: factored_twice
