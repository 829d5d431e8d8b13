import torch
import torch.nn.functional as F


def smoothed(pred, gold, eps):
    classes = pred.size(1)
    rows = torch.zeros_like(pred).scatter(1, gold.view(-1, 1), 1)
    rows = rows * (1 - eps) + (1 - rows) * eps / (classes - 1)
    log_probs = F.log_softmax(pred, dim=1)
    return -(rows * log_probs).sum(dim=1).mean()  # found: dense_targets
