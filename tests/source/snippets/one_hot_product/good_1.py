import torch
import torch.nn.functional as F


def losses(logits, ids, table, smooth):
    target = F.one_hot(ids, 10).float()
    soft = target * (1 - smooth) + smooth / 10
    mixed = soft @ table
    rows = F.embedding(ids, table)
    return -(target * logits.relu()).sum(), mixed, rows, torch.matmul(logits, table)
