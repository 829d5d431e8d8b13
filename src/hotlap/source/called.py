"""What calls return."""

import ast
from collections.abc import Callable

from hotlap.source import kinds as kind
from hotlap.source.kinds import Kinds, joined
from hotlap.source.tree import keyword, receiver
from hotlap.source.values import Values

_RESULT = frozenset({kind.TENSOR, kind.GRAPH})
_PASSED_ON = frozenset({"sum", "list", "tuple", "reversed", "sorted", "max", "min", "abs", "iter"})
# Methods that make arrays, or that arrays alone have, whatever else is known.
_OF_ARRAYS = frozenset({"to_numpy", "numpy", "astype"})
_COMPUTES = ("torch.linalg.", "torch.fft.", "torch.special.", "torch.Tensor.",
             "torch.nn.utils.clip_grad_norm_")  # fmt: skip


def of_call(values: Values, call: ast.Call) -> Kinds:
    """The kinds of what a call returns."""
    dotted = values.names.of(call.func)
    if made := constructed(values, dotted, call):
        return frozenset({made})
    for known, answer in _NAMED:
        if known(dotted):
            return answer(values, dotted, call)
    function = values.local(call)  # before its name is judged: `update_model` is no model
    if function is not None:
        return values.returned(function)
    if values.kinds(call.func) & {kind.MODEL, kind.CRITERION}:
        return _RESULT
    return _method(values, call)


def constructed(values: Values, dotted: str, call: ast.Call) -> str:
    """The kind of object that a call makes; empty when it makes none that is known."""
    if dotted in kind.CONSTRUCTED:
        return kind.CONSTRUCTED[dotted]
    local = values.local_class(call.func)
    if local is not None:
        return values.class_kind(local)
    if dotted.startswith("torch."):
        return _of_torch(dotted)
    if dotted.startswith("torchvision."):
        return _of_vision(dotted)
    if dotted.startswith("transformers.") and dotted.endswith((".from_pretrained", ".from_config")):
        return (
            ""
            if any(word in dotted for word in ("Token", "Process", "Config", "Extr"))
            else kind.MODEL
        )
    return values.imported_kind(dotted) if dotted.rpartition(".")[2][:1].isupper() else ""


def _of_torch(dotted: str) -> str:
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.optim.lr_scheduler."):
        return kind.SCHEDULER
    if not last[:1].isupper():
        return ""
    if dotted.startswith("torch.optim."):
        return kind.OPTIMIZER
    if dotted.startswith("torch.nn.") and last not in {"Parameter", "Buffer"}:
        return kind.CRITERION if last.endswith("Loss") else kind.MODEL
    return (
        kind.DATASET if dotted.startswith("torch.utils.data.") and last.endswith("Dataset") else ""
    )


def _of_vision(dotted: str) -> str:
    if dotted.startswith("torchvision.datasets."):
        return kind.DATASET
    return kind.MODEL if dotted.startswith("torchvision.models.") else ""


def _torch(values: Values, dotted: str, call: ast.Call) -> Kinds:
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.nn.functional."):
        return _functional(values, last, call)
    if last in kind.OTHER or (dotted.count(".") > 1 and not dotted.startswith(_COMPUTES)):
        return kind.NONE
    if last in kind.CREATED:
        placed = keyword(call, "device") is not None or values.names.default_device
        return frozenset({kind.TENSOR}) if placed else frozenset({kind.TENSOR, kind.HOST})
    found = joined([values.kinds(argument) for argument in call.args]) - {kind.SEVERAL}
    return (found - {kind.GRAPH} if last in kind.NO_GRAPH else found) or frozenset({kind.TENSOR})


def _functional(values: Values, last: str, call: ast.Call) -> Kinds:
    if last in kind.LOSSES:
        return _RESULT
    found = joined([values.kinds(argument) for argument in call.args]) - {kind.SEVERAL}
    return (found - {kind.GRAPH} if last in kind.NO_GRAPH else found) or frozenset({kind.TENSOR})


def _numpy(_: Values, dotted: str, call: ast.Call) -> Kinds:
    last = dotted.rpartition(".")[2]
    shaped = dotted.startswith("numpy.random.") and (call.args or keyword(call, "size"))
    sized = shaped and (last in {"rand", "randn", "random", "permutation"} or len(call.args) > 2
                        or keyword(call, "size") is not None)  # fmt: skip
    if last in kind.ARRAY_MAKERS or dotted in kind.ARRAY_FUNCTIONS or sized:
        return frozenset({kind.ARRAY})
    return frozenset({kind.ARRAY}) if keyword(call, "axis") is not None else kind.NONE


def _passed_on(values: Values, dotted: str, call: ast.Call) -> Kinds:
    """`list(x)` and the like keep what is inside; `sum(losses)` is one of them."""
    found = [values.kinds(argument) for argument in call.args]
    if dotted in {"sum", "max", "min", "abs"}:
        return joined(found) - {kind.SEVERAL}
    return (
        frozenset().union(*found) & (kind.DATA | {kind.ARRAYS, kind.LOADER}) if found else kind.NONE
    )


def _next(values: Values, _: str, call: ast.Call) -> Kinds:
    """`next(iter(loader))`, `next(batches)`: a batch."""
    found = values.kinds(call.args[0]) if call.args else kind.NONE
    if kind.LOADER in found:
        return values.batch
    return found & (kind.DATA - {kind.SEVERAL})


def _method(values: Values, call: ast.Call) -> Kinds:
    owner = receiver(call)
    if owner is None or not isinstance(call.func, ast.Attribute):
        return kind.NONE
    name, found = call.func.attr, values.kinds(owner)
    if kind.MODEL in found:
        return _of_model(name)
    if kind.SCALER in found and name == "scale":
        return joined([values.kinds(argument) for argument in call.args])
    if kind.TENSOR in found:
        return _of_tensor(values, name, found & kind.DATA, call)
    return _of_array(name, call) if kind.ARRAY in found or name in _OF_ARRAYS else kind.NONE


def _of_model(name: str) -> Kinds:
    if name in kind.MODEL_KEEPS:
        return frozenset({kind.MODEL})
    return _RESULT if name in {"forward", "loss", "training_step"} else kind.NONE


def _of_array(name: str, call: ast.Call) -> Kinds:
    axis = keyword(call, "axis") is not None
    made = name in kind.ARRAY_METHODS or name in _OF_ARRAYS
    return frozenset({kind.ARRAY}) if made or axis else kind.NONE


def _of_tensor(values: Values, name: str, found: Kinds, call: ast.Call) -> Kinds:
    if name == "numpy":
        return frozenset({kind.ARRAY})
    if name in kind.LEAVES or name in {"keys", "append", "extend", "pop", "clear", "update"}:
        return found - {kind.SEVERAL} if name == "pop" else kind.NONE
    if name == "cpu" or (name == "to" and goes_to_host(values, call)):
        return found | {kind.HOST}
    if name in {"cuda", "to"}:
        return found - {kind.HOST} if name == "cuda" or goes_to_device(values, call) else found
    if name in {"items", "values", "get"}:
        return found - {kind.SEVERAL} if name == "get" else found
    kept = found - {kind.GRAPH} if name in kind.NO_GRAPH else found
    others = [values.kinds(argument) for argument in call.args]
    return joined([kept, *(kinds - {kind.GRAPH, kind.SEVERAL} for kinds in others)])


def goes_to_host(values: Values, call: ast.Call) -> bool:
    """Whether `.to(...)` names the CPU."""
    return any(_cpu(values, node) for node in _where(call))


def goes_to_device(values: Values, call: ast.Call) -> bool:
    """Whether `.to(...)` names a device that is not the CPU: `device`, `"cuda:0"`, `rank`."""
    return any(not _cpu(values, node) and is_device(values, node) for node in _where(call))


def is_device(values: Values, node: ast.expr) -> bool:
    """Whether an expression names a device: by its text, its maker, or what people call it."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | str) and not isinstance(node.value, bool)
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Call):
        return values.names.of(node.func) == "torch.device" or _reads(node.func, ("device",))
    if isinstance(node, ast.IfExp):
        return is_device(values, node.body)
    return _reads(node, ("device", "dev", "gpu", "rank", "gpu_id", "cuda"))


def _reads(node: ast.expr, words: tuple[str, ...]) -> bool:
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    last = str(last).lower()
    return last in words or last.endswith(("device", "_rank", "_gpu")) or last == "get_device"


def _where(call: ast.Call) -> list[ast.expr]:
    given = keyword(call, "device")
    return [given] if given is not None else call.args[:1]


def _cpu(values: Values, node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and values.names.of(node.func) == "torch.device" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("cpu")
    return isinstance(node, ast.Name) and node.id in {"cpu", "cpu_device"}


_NAMED: tuple[tuple[Callable[[str], bool], Callable[[Values, str, ast.Call], Kinds]], ...] = (
    (lambda dotted: dotted.startswith("torch."), _torch),
    (lambda dotted: dotted.startswith("numpy.") or dotted in kind.ARRAY_FUNCTIONS, _numpy),
    (lambda dotted: dotted in _PASSED_ON, _passed_on),
    (lambda dotted: dotted == "next", _next),
)
