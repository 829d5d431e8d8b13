import torch
import torch.nn.functional as F


def mixed(logits, first, second, share):
    rows = share * F.one_hot(first, 10) + (1 - share) * F.one_hot(second, 10)
    return -(rows * F.log_softmax(logits, -1)).sum(-1).mean()


def distilled(logits, teacher):
    return F.kl_div(F.log_softmax(logits, -1), teacher.softmax(-1), reduction="batchmean")


def several_labels(logits, labels):
    rows = torch.zeros_like(logits).scatter_(1, labels, 1.0)
    return -(rows * F.log_softmax(logits, -1)).sum(-1).mean()
