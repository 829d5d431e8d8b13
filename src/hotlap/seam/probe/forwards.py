"""The boundary around outermost module calls: training forwards, losses, evaluations."""

import sys
from contextlib import suppress
from threading import get_ident
from time import perf_counter_ns

from torch import Tensor, is_anomaly_enabled, is_grad_enabled
from torch.autograd.graph import Node
from torch.nn import Embedding, Module

from hotlap.seam.probe.facts import fast_half
from hotlap.seam.probe.models import (
    autocast_dtype,
    batch_of,
    first_tensor,
    is_compiled,
    model_facts,
    takes_sequence_first,
)
from hotlap.seam.probe.phases import CLOSURE, FORWARD, LOSS, LOSSES, OTHER, RESTING
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.roots import CallRoot, Maker, has_parameters
from hotlap.seam.where import CALLERS, users_lines

SIXTEEN_BITS = ("bfloat16", "float16")


def forwards(rec: Recorder) -> Maker:
    """The maker of the wrapper that every root gets."""

    def maker(root: Module, inner: CallRoot) -> CallRoot:
        make = _model if has_parameters(root) else _criterion
        return make(rec, root, inner)

    return maker


def _criterion(rec: Recorder, _: Module, inner: CallRoot) -> CallRoot:
    """A loss module: part of the forward pass, or of the evaluation that is going on."""
    codes, mark = rec.timeline.codes, rec.timeline.mark

    def call(*args: object, **kwargs: object) -> object:
        if not LOSSES[codes[-1]] or get_ident() != rec.thread:
            return inner(*args, **kwargs)
        mark(FORWARD)
        try:
            return inner(*args, **kwargs)
        finally:
            mark(LOSS)

    return call


def _model(rec: Recorder, root: Module, inner: CallRoot) -> CallRoot:
    codes, times, clock = rec.timeline.codes, rec.timeline.times, perf_counter_ns
    evaluations = rec.timeline.evaluations
    training, name = evaluations.training, id(root)
    known, inference, settled = _Known(rec, root), rec.inference, rec.facts.settled

    def call(root: Module, *args: object, **kwargs: object) -> object:
        code = codes[-1]
        if code == RESTING and not (root.training and is_grad_enabled()):
            rec.wake()
            code = codes[-1]
        if not CLOSURE[code] or get_ident() != rec.thread:
            return inner(root, *args, **kwargs)
        if inference.counts(root):
            return _answer(rec, root, known, inner, args, kwargs)
        if not root.training or not is_grad_enabled():
            return _evaluation(rec, root, inner, args, kwargs)
        if rec.counting:
            known.called(root, args, kwargs)
        training(name)
        if "evaluation" not in settled:
            evaluations.called_at = users_lines(sys._getframe(1), CALLERS)
        codes.append(FORWARD)
        times.append(clock())
        try:
            result = inner(root, *args, **kwargs)
            evaluations.made = graph_of(result)
            return result
        finally:
            codes.append(LOSS)
            times.append(clock())

    return call


def graph_of(result: object) -> Node | None:
    """The graph node behind a model's output; None without one."""
    tensor = result if isinstance(result, Tensor) else first_tensor((result,))
    return None if tensor is None else tensor.grad_fn


def _evaluation(
    rec: Recorder,
    root: Module,
    inner: CallRoot,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    line = rec.timeline
    rec.drawn = 0  # for the evaluation
    line.begin_evaluation(id(root), train_mode=root.training)
    if "evaluation" not in rec.facts.settled:
        rec.facts.look_at_evaluation(sys._getframe(1), graded=is_grad_enabled())
    rec.facts.asked_in_train_mode |= root.training
    begin = line.times[-1]
    try:
        return inner(root, *args, **kwargs)
    finally:
        line.end_evaluation()
        rec.generation.note((*args, *kwargs.values()), line.times[-1] - begin)


def _answer(
    rec: Recorder,
    root: Module,
    known: "_Known",
    inner: CallRoot,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """A call in a program that does not train: with it a step ends."""
    line, facts = rec.timeline, rec.facts
    if not rec.begun:
        rec.begin()
        facts.point("step")
    if rec.counting:
        known.called(root, args, kwargs)
    line.mark(FORWARD)
    begin = line.times[-1]
    try:
        result = inner(root, *args, **kwargs)
    finally:
        line.mark(OTHER)
    rec.calls.note((*args, *kwargs.values()), line.times[-1] - begin)
    if "inference_with_grad" not in facts.settled:
        facts.settled.add("inference_with_grad")
        facts.note("inference_with_grad", graph_of(result) is not None)
        facts.note("inference_in_train_mode", root.training)
    rec.turned(root)
    return result


class _Known:
    """What a model's training calls tell: facts at the first, samples at all of the main one's."""

    def __init__(self, rec: Recorder, root: Module) -> None:
        self._rec = rec
        self._new = True
        self._compiled = is_compiled(root)
        self._sequence_first = takes_sequence_first(root)
        self._embeds = any(isinstance(layer, Embedding) for layer in root.modules())

    def called(self, root: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """A training call is about to begin."""
        with suppress(Exception):  # whatever is odd about them, the program goes on
            self._look(root, args, kwargs)

    def _look(self, root: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        rec = self._rec
        if self._new or rec.root is None:
            self._new = False
            self._first(root, args, kwargs)
        if rec.root is root and not rec.is_fed_again(first_tensor((*args, *kwargs.values()))):
            rows, tokens = batch_of(args, kwargs)
            rec.rows += 0 if self._sequence_first else rows
            rec.tokens += tokens
            if self._embeds and not self._sequence_first:
                rec.padded.see(args, kwargs)
            if rec.feeding is not rec.training_loader:
                rec.fed_by(rec.feeding)

    def _first(self, root: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        rec, tensor = self._rec, first_tensor((*args, *kwargs.values()))
        found = {**model_facts(root, tensor), "compiled": self._compiled}
        device = "cuda" if found["cuda"] else "cpu"
        autocast = autocast_dtype(device)
        found["autocast_on"] = bool(autocast)
        dtype = autocast or found["dtype"]
        found["slow_half"] = device == "cpu" and dtype in SIXTEEN_BITS and not fast_half()
        found["anomaly"] = is_anomaly_enabled()
        if rec.root is None:
            rec.root = root
            rec.facts.values["model_name"] = type(root).__name__
            rec.facts.values["dtype"] = dtype
        for name, value in found.items():
            if name != "dtype":
                rec.facts.note(name, value)
        rec.facts.point("model")
        if found["slow_half"]:
            rec.facts.point("half")
