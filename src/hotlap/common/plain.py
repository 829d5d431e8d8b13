"""Tensors that are no subclass: what torch does with them is known."""

import torch

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Their types."""
