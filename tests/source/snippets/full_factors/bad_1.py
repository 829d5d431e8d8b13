import torch


class Muon(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                rank = min(p.grad.shape)
                U, S, Vh = torch.linalg.svd(p.grad)  # found: full_factors
                p.add_(U[:, :rank] @ Vh[:rank, :], alpha=-group["lr"])
