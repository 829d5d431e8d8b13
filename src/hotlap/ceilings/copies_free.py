"""The what-if race in which copies to the device cost nothing."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="upper bound with zero copy time",
    group=Group.TRANSFER,
    numerics=Numerics.TRAINING,
    how=(How.MOVE,),
    why="A tensor of the same shape that is on the device already stands in for each copy.",
    changes="The model sees the same data again and again; only the time means anything.",
    avoid="It is a measurement, never a setting.",
    needs=(Need("cuda", "the model is not on a CUDA device"),),
    moves=(Wrap("tensor", "hotlap.seam.ceiling:copies_free"),),
    symptom=Symptom(("copy",), "copying to the device", "copy"),
)
