import torch


def neighbours(points, k):
    distances, order = torch.sort(torch.cdist(points, points))  # found: sorted_for_a_few
    return distances[:, 1 : k + 1].mean(), points[order[:, :k]]


def threshold(gradient, kept):
    order = torch.argsort(gradient.abs())  # found: sorted_for_a_few
    gradient[order[:kept]] = 0
    return gradient
