import torch
from torch.nn.functional import linear, one_hot


def pick(ids, table, bias):
    rows = torch.matmul(one_hot(ids, 5000).to(table.dtype), table)  # found: one_hot_product
    more = one_hot(ids, len(table)).float().matmul(table)  # found: one_hot_product
    return rows + more + linear(one_hot(ids, 5000).float(), table.T, bias)  # found: one_hot_product
