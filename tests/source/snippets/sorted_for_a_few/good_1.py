import numpy
import torch


def ranked(scores, k):
    values, order = scores.sort(descending=True)
    return values.cumsum(-1), order[:, :k]


def halves(scores):
    return scores.argsort()[:, :-1], torch.sort(scores).values[:, ::2], torch.sort(scores)[0]


def names(found, scores, k):
    found.sort(key=len)
    return found[:k], numpy.argsort(scores)[:k], scores.topk(k).indices, sorted(found)[:k]


def kept(self, x):
    self.order = x.argsort()
    return self.order
