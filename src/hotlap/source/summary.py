"""What one file tells the others of its project, as plain data that a cache can keep."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hotlap.source import sample_copies, steps
from hotlap.source.grad_mode import GradMode
from hotlap.source.names import Names
from hotlap.source.passed import Edge, Passed, edges, passed
from hotlap.source.slow_calls import slow_work
from hotlap.source.tree import FunctionNode, Tree, keyword, text
from hotlap.source.wrappers import ends_biased

Literal = int | float | str | bool | None
UNKNOWN_DEFAULT = "<unknown>"
# What a file mentions; one regular expression over its text, so that it costs nothing.
_TRAITS = {
    "cuda": re.compile(rb"\.cuda\b|['\"](?:cuda|gpu)|torch\.accelerator\b"),
    "moves": re.compile(rb"\.cuda\(|\.to\(|device="),
    "trains": re.compile(rb"backward\(|\.step\(|training_step"),
    "sparse": re.compile(rb"sparse\s*=\s*(?!False)|SparseAdam"),
    "autocast": re.compile(
        rb"autocast|GradScaler|fp16|bf16|float16|\.half\(|mixed_precision|precision\s*=|deepspeed"
    ),
    "float64": re.compile(
        rb"set_default_dtype\(\s*torch\.(?:float64|double)|"
        rb"(?:model|net\w*|\w\([^()\n]*\))\.(?:double\(|to\((?:dtype=)?torch\.(?:float64|double))",
        re.IGNORECASE,
    ),
    "compile": re.compile(
        rb"torch\.compile|(?<!\bre)(?<!regex)\.compile\(|torch_compile|jit\.script|jit\.trace"
    ),
    "channels_last": re.compile(rb"channels_last"),
    "benchmark": re.compile(rb"cudnn\.benchmark|deterministic"),
    "clips": re.compile(rb"clip_grad|grad_clip|gradient_clip|max_grad_norm|clip_norm|clamp_\("),
    "schedules": re.compile(
        rb"[Ss]chedule|param_groups|[Ll][Rr]_?[Dd]ecay|adjust_l(?:r|earning)|"
        rb"\b(?:lr|learning_rate)\s*[*/]="
    ),
    "recurrent": re.compile(
        rb"nn\.(?:LSTM|GRU|RNN|Transformer|MultiheadAttention)|softmax\(.*@|"
        rb"class \w*(?:Multi_?[Hh]ead\w*|Self|Cross|Causal|Product)Attention"
    ),
    "no_sync": re.compile(rb"no_sync|require_backward_grad_sync"),
    "pins": re.compile(rb"pin_memory\s*=\s*(?!False|None)"),
    "convolves": re.compile(
        rb"Conv2d|ConvTranspose2d|torchvision\.models|torchvision import[^\n]*\bmodels\b|"
        rb"\btimm\b|resnet|efficientnet|mobilenet|densenet|\bvgg",
        re.IGNORECASE,
    ),
    # Layers that work differently in evaluation, and models that may hold them.
    "modal": re.compile(
        rb"[Dd]rop_?(?:out|path)|[Bb]atch_?[Nn]orm|InstanceNorm|Transformer|from_pretrained|"
        rb"models\.|timm|hub\.|dropout="
    ),
}
# Objects that hold options by name.
_HOLDERS = frozenset({"HParams", "SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict",
                      "Munch"})  # fmt: skip
_SWITCHES = re.compile(rb"no_grad|inference_mode|set_grad_enabled")
_CONFIG_BASES = ("Config", "Args", "Arguments", "Options", "Settings", "NamedTuple", "BaseModel",
                 "Tap")  # fmt: skip


@dataclass(frozen=True)
class ClassSummary:
    """A class: its bases and the names that its body calls, as dotted names.

    `endless`: whether its `__iter__` never ends by itself. `ends_biased`: whether its `forward`
    returns what a convolution or linear layer with a bias computes. `on_device`: whether it copies
    each sample that it is asked for to the device.
    """

    bases: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    endless: bool = False
    ends_biased: bool = False
    on_device: bool = False


@dataclass(frozen=True)
class Summary:
    """One file as the others see it.

    `modules` are the modules that it imports, `stars` those of `import *`. `options` maps the names
    of command-line options and of configuration fields to their defaults. `guarded` are the
    functions that it calls with gradients switched off, `slow` its functions that decode or parse.
    `calls` are the names that each function calls each time that it runs (`steps.calls`),
    `passed` the numbers that it passes to the classes that it makes objects of, `edges` where the
    values of its variables go.
    """

    names: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    stars: tuple[str, ...] = ()
    constants: dict[str, Literal] = field(default_factory=dict)
    options: dict[str, list[Literal]] = field(default_factory=dict)
    classes: dict[str, ClassSummary] = field(default_factory=dict)
    guarded: tuple[str, ...] = ()
    slow: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    passed: dict[str, list[Passed]] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    traits: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The same as JSON can hold it."""
        classes = {name: vars(one) for name, one in self.classes.items()}
        return {**vars(self), "classes": classes}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Summary":
        """The summary that `to_dict` wrote."""
        classes = {
            name: ClassSummary(**{**c, "bases": tuple(c["bases"]), "calls": tuple(c["calls"])})
            for name, c in stored["classes"].items()
        }
        lists = {name: tuple(stored[name]) for name in ("modules", "stars", "guarded", "traits")}
        calls = {name: tuple(called) for name, called in stored["calls"].items()}
        lists["edges"] = tuple((start, end) for start, end in stored["edges"])
        return cls(**{**stored, **lists, "classes": classes, "calls": calls})


def summary(tree: Tree, names: Names, content: bytes) -> Summary:
    """The summary of a file."""
    found = traits(content)
    imported = list(_imported(tree))
    return Summary(
        {bound: dotted for bound, dotted in imported if bound and bound != "*"},
        tuple(sorted({dotted for _, dotted in imported})),
        tuple(dotted.removesuffix(".*") for bound, dotted in imported if bound == "*"),
        dict(_constants(tree)),
        _options(tree, names),
        {node.name: _class(node, names) for node in tree.classes},
        tuple(sorted(set(_guarded(tree, names)))) if _SWITCHES.search(content) else (),
        {f.name: why for f in tree.functions if (why := _slow(f, names))},
        steps.calls(tree, names),
        passed(tree, names),
        tuple(edges(tree, names)),
        found,
    )


def traits(content: bytes) -> tuple[str, ...]:
    """What the text of a file mentions."""
    return tuple(name for name, mark in _TRAITS.items() if mark.search(content))


def _imported(tree: Tree) -> Iterator[tuple[str, str]]:
    for node in tree.every(ast.Import):
        for name in node.names:
            yield name.asname or "", name.name
    for origin in tree.every(ast.ImportFrom):
        module = "." * origin.level + (origin.module or "")
        joint = "" if module.endswith(".") or not module else "."
        for name in origin.names:
            yield name.asname or name.name, f"{module}{joint}{name.name}"


def _constants(tree: Tree) -> Iterator[tuple[str, Literal]]:
    seen: dict[str, Literal] = {}
    for statement in tree.module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
            for target in targets:
                name = text(target)
                if name and name not in seen and isinstance(statement.value, ast.Constant):
                    seen[name] = _literal(statement.value)
                elif name in seen:
                    seen[name] = UNKNOWN_DEFAULT
                if name and isinstance(statement.value, ast.Dict):
                    seen.update(_entries(name, statement.value))
    yield from ((name, value) for name, value in seen.items() if value != UNKNOWN_DEFAULT)


def _entries(name: str, node: ast.Dict) -> Iterator[tuple[str, Literal]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            if not isinstance(value, ast.Constant):
                continue
            yield f"{name}[{key.value}]", _literal(value)


def _options(tree: Tree, names: Names) -> dict[str, list[Literal]]:
    found: dict[str, list[Literal]] = {}
    for name, value in (*_from_parsers(tree, names), *_from_classes(tree, names)):
        found.setdefault(name, []).append(value)
    return found


def _from_parsers(tree: Tree, names: Names) -> Iterator[tuple[str, Literal]]:
    for call in tree.calls:
        last = text(call.func).rpartition(".")[2]
        if last in {"add_argument", "add_arg"} or names.of(call.func) in {"click.option"}:
            if destination := destination_of(call):
                yield destination, default_of(call)
        elif last.startswith("DEFINE_") and len(call.args) >= 2:
            yield str(getattr(call.args[0], "value", "")), _literal(call.args[1])
        elif last == "set_defaults" or last in _HOLDERS:
            yield from ((word.arg, _literal(word.value)) for word in call.keywords if word.arg)


def _from_classes(tree: Tree, names: Names) -> Iterator[tuple[str, Literal]]:
    """The fields of dataclasses and of classes that are called a configuration."""
    for node in tree.classes:
        marks = [names.of(getattr(d, "func", d)) for d in node.decorator_list]
        called = any(word in node.name for word in _CONFIG_BASES)
        called |= any(text(base).endswith(_CONFIG_BASES) for base in node.bases)
        if not called and not any("dataclass" in mark or "attr" in mark for mark in marks):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
                yield from ((text(t), _field(statement.value)) for t in targets if text(t))


def _field(value: ast.expr) -> Literal:
    """A field's default, that of `field(default=3)` too."""
    if isinstance(value, ast.Call):
        given = keyword(value, "default")
        return _literal(given) if given is not None else UNKNOWN_DEFAULT
    return _literal(value)


def destination_of(call: ast.Call) -> str:
    """The name under which an option's value is read: `num_workers` of `--num-workers`."""
    given = keyword(call, "dest")
    if isinstance(given, ast.Constant):
        return str(given.value)
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    plain = [name for name in names if not name.startswith("-")]
    long = plain[-1:] or [name for name in names if name.startswith("--")] or names
    return long[0].partition("/")[0].lstrip("-").replace("-", "_") if long else ""


def default_of(call: ast.Call) -> Literal:
    """An option's default; that of a flag is whether it is on when it is not given."""
    given = keyword(call, "default")
    if given is not None:
        return _literal(given)
    action = getattr(keyword(call, "action"), "value", None)
    flag = getattr(keyword(call, "is_flag"), "value", None)
    if action in {"store_true", "store_false"}:
        return bool(action == "store_false")
    return False if flag is True else UNKNOWN_DEFAULT


def _literal(node: ast.expr | None) -> Literal:
    match node:
        case ast.Constant(value=int() | float() | str() | bool() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    return UNKNOWN_DEFAULT


def _class(node: ast.ClassDef, names: Names) -> ClassSummary:
    calls = {names.of(c.func) or text(c.func) for c in ast.walk(node) if isinstance(c, ast.Call)}
    endless = any(
        isinstance(inner, ast.While) and getattr(inner.test, "value", None) in (True, 1)
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == "__iter__"
        for inner in ast.walk(function)
    )
    bases = tuple(names.of(base) or text(base) for base in node.bases)
    made = tuple(sorted(calls - {""}))
    biased, on_device = ends_biased(node, names), sample_copies.of_class(node, names)
    return ClassSummary(bases, made, endless, biased, on_device)


def _guarded(tree: Tree, names: Names) -> Iterator[str]:
    mode = GradMode(tree, names)
    for call in tree.calls:
        name = text(call.func).rpartition(".")[2]
        if name and mode.off(call):
            yield name


def _slow(function: FunctionNode, names: Names) -> str:
    reasons = (slow_work(names, n) for n in ast.walk(function) if isinstance(n, ast.Call))
    return next(filter(None, reasons), "")
