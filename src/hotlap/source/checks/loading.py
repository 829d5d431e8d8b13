"""How DataLoaders are made."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import meaning
from hotlap.source.checks.datasets import copied_in_loader
from hotlap.source.constants import constant
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.script_model import DATA_LOADER
from hotlap.source.tree import text

IN_MEMORY = "torch.utils.data.TensorDataset"
_COPY_FIRST = "first take the copies to the device out of the data set: workers cannot use CUDA"
_ENDLESS = re.compile(r"infinit|endless|InfSampler|forever", re.IGNORECASE)
Given = dict[str, ast.expr]


def serial_loader(source: Source, _: Technique) -> Iterator[Spread]:
    """`num_workers` missing or 0, unless the dataset holds tensors in memory.

    Workers that fork cannot use CUDA: what the loader copies to the device is to go first.
    """
    copied = {where for _, where in copied_in_loader(source, _)}
    for call, given in loaders(source):
        workers = constant(source, given.get("num_workers"))
        if workers in (None, 0) and not _in_memory(source, given):
            first = bool(copied) or _on_device(source, given)
            yield Spread(call, call, _COPY_FIRST if first else "")


def _on_device(source: Source, given: Given) -> bool:
    """Whether a class of another file copies each sample to the device."""
    dataset = meaning(source, given["dataset"]) if "dataset" in given else None
    name = source.names.of(dataset.func) if isinstance(dataset, ast.Call) else ""
    found = source.project.class_of(name) if name else None
    return found is not None and found[0].on_device


def workers_restarted(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Workers without `persistent_workers`; it would not help a loader that is made anew."""
    rebuilt = set(loader_rebuilt(source, _))
    for call, given in loaders(source):
        if call in rebuilt or is_given(source, given, "persistent_workers"):
            continue
        if _has_workers(source, given) and not _endless(source, given):
            yield call


def unpinned_loader(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`pin_memory` missing where the project uses CUDA."""
    if not (uses_cuda(source) or source.project.has("cuda")):
        return
    for call, given in loaders(source):
        if not is_given(source, given, "pin_memory"):
            yield call


def loader_rebuilt(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A loader with workers made anew in each epoch out of what does not change."""
    for call, given in loaders(source):
        again = _has_workers(source, given) and source.loops.in_epoch(call)
        if again and not _changes(source, call):
            yield call


def loaders(source: Source) -> Iterator[tuple[ast.Call, Given]]:
    """Each DataLoader made, with its arguments by name; unknown ones are left out."""
    for call in source.calls(DATA_LOADER):
        given = source.arguments(call)
        if given is not None and not _tried_out(source, call):
            yield call, given


def _tried_out(source: Source, call: ast.Call) -> bool:
    """Whether a module that trains nothing makes the loader under `if __name__ == "__main__":`."""
    return not source.script.steps and source.project.has("trains") and any(
        isinstance(above, ast.If) and "__name__" in ast.unparse(above.test)
        for above in source.tree.above(call)
    ) and source.tree.function(call) is None  # fmt: skip


def uses_cuda(source: Source) -> bool:
    """Whether the file names CUDA in its code, be it where it asks for a device."""
    return any(
        node.attr == "cuda" or text(node) == "torch.accelerator"
        for node in source.tree.every(ast.Attribute)
    ) or any(
        isinstance(node.value, str) and node.value.startswith(("cuda", "gpu"))
        for node in source.tree.every(ast.Constant)
    )  # fmt: skip


def is_given(source: Source, given: Given, name: str) -> bool:
    """Whether an argument is passed, and is not None or False."""
    return constant(source, given.get(name)) not in (None, False)


def _has_workers(source: Source, given: Given) -> bool:
    """Whether `num_workers` is given and not known to be 0."""
    return constant(source, given.get("num_workers")) not in (None, 0)


def _endless(source: Source, given: Given) -> bool:
    """Whether the sampler or the dataset never ends, so that no epoch starts the workers anew."""
    for name in ("sampler", "batch_sampler", "dataset"):
        node = given.get(name)
        made = meaning(source, node) if node is not None else None
        if isinstance(made, ast.Call):
            dotted = source.names.of(made.func) or text(made.func)
            found = source.project.class_of(dotted)
            if _ENDLESS.search(dotted) or (found is not None and found[0].endless):
                return True
    return False


def _in_memory(source: Source, given: Given) -> bool:
    dataset = meaning(source, given["dataset"]) if "dataset" in given else None
    return isinstance(dataset, ast.Call) and source.names.of(dataset.func) == IN_MEMORY


def _changes(source: Source, call: ast.Call) -> bool:
    """Whether what the loader is made of is itself made in the loop."""
    loops = set(source.tree.loops(call))
    return any(
        loops & set(source.tree.above(definition.target))
        for node in ast.walk(call)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)
        for definition in source.values.flow.reaching(node)
        if not isinstance(definition.where, ast.comprehension)
    )
