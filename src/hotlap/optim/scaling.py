"""The learning rate that goes with another batch size."""

import math
from typing import Literal


def scale_lr(
    lr: float, batch: int, base_batch: int, rule: Literal["linear", "sqrt"] = "linear"
) -> float:
    """Scale a learning rate that was tuned at `base_batch` samples a step to `batch` samples.

    - `linear`: lr * batch / base_batch. For SGD with momentum: Goyal et al. 2017, "Accurate, Large
      Minibatch SGD" (with warm-up over the first epochs; up to 8192 images on ImageNet). Smith et
      al. 2018, "Don't Decay the Learning Rate, Increase the Batch Size", see the noise scale.
    - `sqrt`: lr * sqrt(batch / base_batch). For Adam and its kin: Malladi et al. 2022, "On the SDEs
      and Scaling Rules for Adaptive Gradient Algorithms"; for LAMB: You et al. 2020, "Large Batch
      Optimization for Deep Learning". For SGD it goes back to Krizhevsky 2014, "One weird trick".

    Both hold only below the critical batch size (McCandlish et al. 2018, "An Empirical Model of
    Large-Batch Training"); beyond it no rate makes up for the steps that are missing.

    Args:
        lr: the rate tuned at `base_batch`.
        batch: samples a step, over all ranks and accumulated micro-batches.
        base_batch: the same, of the run that `lr` comes from.
        rule: `linear` or `sqrt`.

    Raises:
        ValueError: a batch below 1, a negative rate, or an unknown rule.
    """
    if batch < 1 or base_batch < 1:
        raise ValueError(f"batch sizes are at least 1; these are {batch} and {base_batch}")
    if not 0 <= lr < math.inf:
        raise ValueError(f"lr is {lr!r}; it must be a finite number of at least 0")
    if rule not in ("linear", "sqrt"):
        raise ValueError(f"rule is {rule!r}; it must be 'linear' or 'sqrt'")
    ratio = batch / base_batch
    return lr * (ratio if rule == "linear" else math.sqrt(ratio))
