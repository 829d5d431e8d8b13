"""What the script does with batches when it is left alone."""

from dataclasses import replace

from hotlap.batch.batch_result import BatchFacts
from hotlap.batch.contestant import Contestant, SizedCommand, TooLarge
from hotlap.core.errors import TrialFailedError, UsageError
from hotlap.core.protocol import LoaderSeen

OPTION_HINT = (
    "give the option that sets it, with {batch} for the number: --set '--batch-size {batch}'"
)
STEPS = 4


def observe_script(sized: SizedCommand) -> BatchFacts:
    """Run a few steps of the plain script and see which loaders feed it.

    Raises:
        UsageError: no DataLoader that can be driven feeds the training, and no option was given.
        HotlapError: the script failed, or no step was seen.
    """
    # The script's own batch may need more than was allowed: then a smaller one is searched for.
    machines = replace(sized.limits, memory=0)
    plain = Contestant(replace(sized, limits=machines), 0)
    try:
        plain.run(STEPS)
        report, world = plain.report, plain.world
    except TooLarge as error:
        raise TrialFailedError(f"the program does not fit as it is: {error}") from None
    finally:
        plain.close()
    assert report is not None
    loaders = report.loaders
    driven = () if sized.argument else _drivable(loaders)
    if not driven and not sized.argument:
        raise _refusal(loaders)
    feeds = [loader for loader in loaders if loader.feeds]
    known = [loaders[i] for i in driven] or feeds
    sizes = [loader.batch_size for loader in known if loader.batch_size]
    return BatchFacts(
        batch=sizes[0] if sizes else 0,
        loaders=driven,
        samples=max((loader.samples for loader in known), default=0),
        micro_batches=max(1, report.micro_batches),
        world=world,
        optimizer=report.optimizer,
        lr=report.lr,
        notes=tuple(_notes(loaders, driven)),
    )


def _drivable(loaders: list[LoaderSeen]) -> tuple[int, ...]:
    """Loaders that feed the training, or whose batches one that does was given."""
    feeding = [index for index, loader in enumerate(loaders) if loader.feeds]
    wanted = {origin for index in feeding for origin in (index, *loaders[index].around)}
    return tuple(sorted(index for index in wanted if loaders[index].batch_size))


def _refusal(loaders: list[LoaderSeen]) -> UsageError:
    feeding = next((loader for loader in loaders if loader.feeds), None)
    if feeding is None:
        return UsageError(
            "no DataLoader feeds the training, so its batch size cannot be reached", OPTION_HINT
        )
    what = "a batch_sampler" if feeding.sampler else "batch_size=None"
    return UsageError(
        f"the DataLoader at {feeding.place} has {what}, which is left alone", OPTION_HINT
    )


def _notes(loaders: list[LoaderSeen], driven: tuple[int, ...]) -> list[str]:
    left = [
        loader
        for index, loader in enumerate(loaders)
        if loader.feeds and loader.sampler and not {index, *loader.around} & set(driven)
    ]
    return [f"the DataLoader at {loader.place} has a batch_sampler: left alone" for loader in left]
