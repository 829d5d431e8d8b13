"""What a profile can show that no technique changes by itself; the remedy is the user's to apply.

No record of the catalogue describes it. Each has the fields of a technique's symptom, and an id.
"""

from dataclasses import dataclass

from hotlap.core.technique import Need, Symptom


@dataclass(frozen=True)
class Advice:
    """A remedy that is the user's to apply. `least`: share of a step from which it is worth it."""

    id: str
    symptom: Symptom
    needs: tuple[Need, ...] = ()
    least: float = 0.02


KV_CACHE = (
    "each new token computes the whole text again; keep the keys and values of earlier tokens "
    "(use_cache=True, or a cache in the attention layers)"
)
ADVICE = (
    Advice(
        "kv_cache",
        Symptom(("forward",), KV_CACHE, "model", 0.5),
        (Need("decodes_uncached", "no text is generated without a cache"),),
    ),
    Advice(
        "kv_cache",
        Symptom(("evaluation",), KV_CACHE, "evaluation", 0.5),
        (Need("generates_uncached", "no text is generated without a cache"),),
        0.1,
    ),
    Advice(
        "float64_compute",
        Symptom(
            ("copy", "forward", "backward", "optimizer"),
            "tensors are float64: twice the bytes and at most half the speed of float32; "
            "use .float(), or astype(np.float32) where the data are made",
            "float64",
            0.5,
        ),
        (Need("float64_model", "the model is not in float64"),),
    ),
    Advice(
        "float64_copies",
        Symptom(
            ("copy",),
            "tensors are converted to float64 in the step; make and keep them in float32",
            "float64",
        ),
        (Need("float64_copies", "nothing is converted to float64"),),
    ),
    Advice(
        "copies_in_step",
        Symptom(
            ("copy",),
            "tensors are copied or converted in the step; do it once, before the loop",
            "copy",
            sure=False,
        ),
        (
            Need("!cuda", "copies to the GPU are what the step is for"),
            Need("!float64_copies", "told as float64_copies"),
        ),
        0.1,
    ),
    Advice(
        "python_in_step",
        Symptom(
            ("other",),
            "Python code of the loop itself, outside of data, model and optimizer",
            "other",
            sure=False,
        ),
        (),
        0.25,
    ),
)
