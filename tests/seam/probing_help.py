"""A session that is no process of its own, so that a loop in a test can be probed."""

import json
import sys
from contextlib import contextmanager

from hotlap.core.spec import Mode, Spec
from hotlap.seam.probe import probing
from hotlap.seam.roots import Roots


class FakeWire:
    def __init__(self):
        self.messages = []
        self.waited = 0

    def send(self, kind, **fields):
        json.dumps(fields)
        self.messages.append((kind, fields))

    def receive(self):
        self.waited += 1


class FakeSession:
    def __init__(self, **options):
        self.spec = Spec("test", Mode.PROFILE, "", options=options)
        self.wire = FakeWire()
        self.roots = Roots()
        self.told = 0
        self.at_exit = []

    def stepped(self):
        self.told += 1

    def standing(self):
        return {"held": {}, "inert": {}}

    def kinds(self):
        return [kind for kind, _ in self.wire.messages]

    @property
    def profile(self):
        return next(fields for kind, fields in self.wire.messages if kind == "profile")


@contextmanager
def probed(warmup=1, **options):
    """Probe what runs inside; the session's `profile` is there once its `steps` have been made.

    A probe prices work by its seconds, so that a test with one goes by the clock.
    """
    sys.audit("hotlap.tests.probed")
    session = FakeSession(warmup=warmup, **options)
    with probing(session), session.roots.watching():
        yield session


def diagnosed(model, inputs, lr=0.01):
    """The profile of nine steps that train a model on what `inputs` makes."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(inputs()).square().mean().backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    return session.profile


def line_of(function, text):
    """`file:line` of the first line with `text` in a function, as the probe would point at it."""
    import inspect

    from hotlap.seam.where import short

    lines, first = inspect.getsourcelines(function)
    at = next(index for index, line in enumerate(lines) if text in line)
    return f"{short(inspect.getsourcefile(function))}:{first + at}"
