import torch
import torch.nn.functional as F


def attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def with_weights(q, k, v):
    """The weights themselves are wanted: SDPA does not return them."""
    weights = (q @ k.transpose(-2, -1)).softmax(-1)
    return weights @ v, weights


def classify(x, w1, w2):
    probabilities = torch.softmax(x @ w1, -1)
    return probabilities.argmax(-1)


def normalised_after(q, k, v):
    scores = (q @ k.transpose(-2, -1)).softmax(-1)
    scores = scores / scores.sum(1, keepdim=True)
    return scores @ v
