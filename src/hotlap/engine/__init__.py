"""Making one training step right, in a loop that stays the reader's own; each part usable alone."""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

if TYPE_CHECKING:
    from hotlap.common.recomputing import recompute as recompute
    from hotlap.engine.accumulation import Share as Share
    from hotlap.engine.accumulation import grouped as grouped
    from hotlap.engine.checkpointer import Checkpointer as Checkpointer
    from hotlap.engine.determinism import seed_everything as seed_everything
    from hotlap.engine.engine import Engine as Engine
    from hotlap.engine.engine_config import EngineConfig as EngineConfig
    from hotlap.engine.evaluation import evaluating as evaluating
    from hotlap.engine.loggers import Logger as Logger
    from hotlap.engine.loggers import MLflow as MLflow
    from hotlap.engine.loggers import TensorBoard as TensorBoard
    from hotlap.engine.loggers import WandB as WandB
    from hotlap.engine.progress import Progress as Progress
    from hotlap.engine.stepper import Stepper as Stepper

_WHERE = {
    "Checkpointer": ".checkpointer",
    "Engine": ".engine",
    "EngineConfig": ".engine_config",
    "Logger": ".loggers",
    "MLflow": ".loggers",
    "Progress": ".progress",
    "Share": ".accumulation",
    "Stepper": ".stepper",
    "TensorBoard": ".loggers",
    "WandB": ".loggers",
    "evaluating": ".evaluation",
    "grouped": ".accumulation",
    "recompute": "hotlap.common.recomputing",
    "seed_everything": ".determinism",
}
__all__ = list(_WHERE)
__getattr__ = lazy(__name__, _WHERE)
