import torch


def hardest(similarity, k):
    return similarity.argsort(dim=1, descending=True)[:, 8 : 8 + k]  # found: sorted_for_a_few


def best(scores, k):
    return torch.sort(scores, descending=True)[0][..., :k]  # found: sorted_for_a_few


def largest(scores, k):
    return scores.sort(dim=-1).values[:, -k:]  # found: sorted_for_a_few
