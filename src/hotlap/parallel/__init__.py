"""Training over several devices and machines, on torch.distributed."""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

if TYPE_CHECKING:
    from hotlap.parallel.applying import Parallelized as Parallelized
    from hotlap.parallel.applying import Preparation as Preparation
    from hotlap.parallel.applying import parallelize as parallelize
    from hotlap.parallel.fused_columns import FusedColwise as FusedColwise
    from hotlap.parallel.norms import clip_grad_norm_ as clip_grad_norm_
    from hotlap.parallel.norms import global_norm as global_norm
    from hotlap.parallel.parallelism import Parallelism as Parallelism
    from hotlap.parallel.plans import pair as pair
    from hotlap.parallel.sharded_checkpoint import ShardedCheckpointer as ShardedCheckpointer
    from hotlap.parallel.splitting import stage_names as stage_names

_WHERE = {
    "FusedColwise": ".fused_columns",
    "Parallelism": ".parallelism",
    "Parallelized": ".applying",
    "Preparation": ".applying",
    "ShardedCheckpointer": ".sharded_checkpoint",
    "parallelize": ".applying",
    "clip_grad_norm_": ".norms",
    "global_norm": ".norms",
    "pair": ".plans",
    "stage_names": ".splitting",
}
__all__ = list(_WHERE)
__getattr__ = lazy(__name__, _WHERE, {"apply": "parallelize"})
