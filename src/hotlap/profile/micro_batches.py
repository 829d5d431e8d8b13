"""Gradients that are accumulated over small batches, where one large batch would fit."""

from hotlap.core.amounts import size
from hotlap.profile.model import NO_BOUND, Finding, Profile, Remedy, headline

NAME = "micro_batches"
MANY = 4
"""Backward passes of a step from which gradients are accumulated: two losses, or a few models that
train by turns, have as many of their own."""
IDLE = 0.1
"""Share of the machine's measured peak below which a larger batch gives its cores more to do."""
SMALL = 8
"""Samples of a pass up to which it is taken to be too little work, and not to wait for memory."""
FITS = 0.5
"""Part of the memory that is free which the activations of one large batch may take."""
GIVES = 0.3
"""Part of forward and backward that is expected to go."""
PHASES = ("forward", "backward")
SAME = "the step stays the same but for rounding, where no batch normalisation is used"
_OPTIONS = {
    "transformers": "per_device_train_batch_size={rows}, gradient_accumulation_steps=1",
    "lightning": "from the loader, with accumulate_grad_batches=1",
    "accelerate": "from the loader, with gradient_accumulation_steps=1",
}


def micro_batches(profile: Profile, available: int) -> list[Finding]:
    """The finding of a step that goes through its samples in small parts.

    `available`: bytes that the device could still take.
    """
    passes, facts = profile.backwards, profile.facts
    rows = profile.samples_per_second * profile.step
    needed = (passes - 1) * profile.memory_by_owner.get("activations", 0)
    used = profile.headroom.share if profile.headroom else None
    parts = passes >= MANY and rows >= passes and facts.get("each_sample_once")
    if not parts or used is None or used >= IDLE or not 0 < needed <= FITS * available:
        return []
    each = round(rows / passes)
    if each > SMALL:
        return []
    seconds = sum(phase.mean for phase in profile.phases if phase.name in PHASES)
    share = min(1.0, seconds / profile.step)
    what = headline(
        f"{passes} passes through the model a step, of {each} sample{'s' * (each > 1)} each",
        share, profile.step,
    )  # fmt: skip
    whole = passes * each
    how = _OPTIONS.get(str(facts.get("trainer")), "without accumulation").format(rows=whole)
    says = (
        f"that is too little work at once: {used:.0%} of the measured peak is reached; one batch "
        f"of {whole} ({how}) needs about {size(needed)} more memory, of {size(available)} that are "
        f"free; {SAME}"
    )
    place = profile.places.get("loader", "") or profile.places.get("model", "")
    remedy = Remedy(NAME, says, PHASES, place, NO_BOUND, GIVES * share, by_hand=True)
    return [Finding(what, place, "", share, NO_BOUND, (remedy,))]
