"""The what-if race in which data cost nothing."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="upper bound with zero data-loading time",
    group=Group.DATA_LOADING,
    numerics=Numerics.TRAINING,
    how=(How.MOVE,),
    why="The first batches are replayed, so that no step waits for data.",
    changes="The model sees the same few batches again and again; only the time means anything.",
    avoid="It is a measurement, never a setting.",
    needs=(Need("loaders", "no DataLoader is iterated"),),
    moves=(Wrap("loader", "hotlap.seam.ceiling:data_free"),),
    symptom=Symptom(("data",), "waiting for data", "loader"),
)
