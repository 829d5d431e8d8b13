"""What the names of a module stand for: dotted names, through imports, aliases and scopes.

A name that is bound to anything else in its scope, or to two different imports, resolves to
nothing: it is left alone rather than guessed. `name = None` after a failed import binds nothing.
"""

import ast
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from hotlap.source.tree import Scope, Tree

# Where torch defines what it exports elsewhere; people import from both.
_CANONICAL = (
    (re.compile(r"^torch\.utils\.data\.(?:dataloader|dataset|distributed|sampler)\."),
     "torch.utils.data."),
    (re.compile(r"^torch\.nn\.modules\.(?:\w+\.)?(?=[A-Z])"), "torch.nn."),
    (re.compile(r"^torch\.nn\.parallel\.(?:data_parallel\.)?DataParallel$"),
     "torch.nn.DataParallel"),
    (re.compile(r"^torch\.nn\.parallel\.distributed\."), "torch.nn.parallel."),
    (re.compile(r"^torch\.nn\.utils\.clip_grad\."), "torch.nn.utils."),
    (re.compile(r"^torch\.optim\.[a-z_0-9]+\.(?=[A-Z])(?<!lr_scheduler\.)"), "torch.optim."),
    (re.compile(r"^torch\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.amp."),
    (re.compile(r"^torch\.cuda\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.cuda.amp."),
    (re.compile(r"^torch\.(?:functional|autograd\.grad_mode)\.(?=[a-z])"), "torch."),
    (re.compile(r"^np\."), "numpy."),
    (re.compile(r"^torch_geometric\.(?:loader|data)\.(?:\w+\.)?(?:Data|Neighbor|LinkNeighbor|"
                r"HGT|Cluster|DenseData|RandomNode|GraphSAINT\w+|Imbalanced)(?:Loader)$"),
     "torch.utils.data.DataLoader"),
)  # fmt: skip


_ACCELERATORS = ("cuda", "gpu", "mps", "xpu", "hpu", "xla", "tpu")
_TOOLS = frozenset({"cuda", "mps", "xpu", "prepare", "accelerator", "Fabric", "Trainer"})
# Whatever may put a tensor or a model elsewhere than where torch makes it.
_PLACING = _TOOLS | {"to", "device", "to_device", "device_map", "distribute"}
_PLACE_MODELS = frozenset({"lightning", "pytorch_lightning", "accelerate", "transformers", "fastai",
                           "deepspeed", "ignite", "jax", "ray"})  # fmt: skip


@lru_cache(maxsize=65536)
def canonical(dotted: str) -> str:
    """The name under which torch documents it."""
    if not dotted.startswith(("torch.", "np.", "torch_geometric.")):
        return dotted
    for pattern, documented in _CANONICAL:
        dotted = pattern.sub(documented, dotted)
    return dotted


class Names:
    """Resolves expressions of one module to dotted names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._bound: dict[Scope, dict[str, str]] = {}
        self._known: dict[ast.AST, str] = {}
        for node, name, dotted in (*_imported(tree), *_definitions(tree), *_stored(tree)):
            self._put(node, name, dotted)
        for alias in filter(_is_alias, tree.every(ast.Assign)):
            for target in alias.targets:
                if isinstance(target, ast.Name):
                    self._put(alias, target.id, self._of(alias.value))

    def of(self, node: ast.AST) -> str:
        """The dotted name behind a name or attribute chain; empty when not known.

        A name bound nowhere in the module stands for itself: `print`, `len`.
        """
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._of(node)
        return found

    def _of(self, node: ast.AST) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        head = self._lookup(node)
        if not parts:
            return canonical(head)
        return canonical(".".join([head, *reversed(parts)])) if head else ""

    @cached_property
    def default_device(self) -> bool:
        """Whether the module makes tensors on another device than the CPU unless told otherwise."""
        setters = {"torch.set_default_device", "torch.set_default_tensor_type"}
        return any(self.of(call.func) in setters for call in self._tree.calls)

    @cached_property
    def cpu_only(self) -> bool:
        """Whether the module names the CPU as its device, and no other."""
        strings = {str(n.value) for n in self._tree.every(ast.Constant) if isinstance(n.value, str)}
        others = any(word.startswith(_ACCELERATORS) for word in strings)
        attributes = {node.attr for node in self._tree.every(ast.Attribute)}
        named = "cpu" in strings and not others and not attributes & _TOOLS
        return named and not self._takes_device()

    def _takes_device(self) -> bool:
        """Whether the device is a parameter that other modules give; "cpu" may be its default."""
        for function in self._tree.functions:
            owner = self._tree.parent(function)
            inside = isinstance(owner, ast.ClassDef) and function.name == "__init__"
            name = owner.name if inside and isinstance(owner, ast.ClassDef) else function.name
            parameters = (*function.args.args, *function.args.kwonlyargs)
            given = any(one.arg == "device" for one in parameters)
            if given and name not in self._tree.called:
                return True
        return False

    @cached_property
    def no_device(self) -> bool:
        """Whether the module trains a model that it makes itself, and names no device at all.

        Then the model stays where torch makes it: on the CPU. Frameworks place models themselves.
        """
        bound = [dotted for names in self._bound.values() for dotted in names.values()]
        packages = {dotted.partition(".")[0] for dotted in bound}
        if self.default_device or packages & _PLACE_MODELS or not self._makes_what_it_trains():
            return False
        attributes = {node.attr for node in self._tree.every(ast.Attribute)}
        plain = {node.id for node in self._tree.every(ast.Name)}
        passed = {word.arg or "**" for call in self._tree.calls for word in call.keywords}
        return not (attributes | plain | passed) & _PLACING

    def _makes_what_it_trains(self) -> bool:
        """Whether an optimizer is made of the parameters of a name that a call is assigned to."""
        made = {
            ast.unparse(target)
            for node in self._tree.every(ast.Assign)
            if isinstance(node.value, ast.Call)
            for target in node.targets
        }
        return any(
            ast.unparse(inner.func.value) in made
            for call in self._tree.calls
            if self.of(call.func).startswith("torch.optim.")
            for inner in ast.walk(call)
            if isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr == "parameters"
        )

    def _lookup(self, node: ast.Name) -> str:
        for scope in self._tree.scopes(node):
            bound = self._bound.get(scope)
            if bound is not None and node.id in bound:
                return bound[node.id]
        return node.id

    def _put(self, node: ast.AST, name: str, dotted: str) -> None:
        scope = self._tree.scope(node)
        scope = self._tree.declared.get((scope, name), scope)
        bound = self._bound.setdefault(scope, {})
        if name in bound and canonical(bound[name]) != canonical(dotted):
            dotted = ""
        bound[name] = dotted


Binding = tuple[ast.AST, str, str]


def _imported(tree: Tree) -> Iterator[Binding]:
    for node in tree.every(ast.Import):
        for name in node.names:
            top = name.name if name.asname else name.name.partition(".")[0]
            yield node, name.asname or top, top
    for origin in tree.every(ast.ImportFrom):
        module = "." * origin.level + (origin.module or "")
        for name in origin.names:
            yield origin, name.asname or name.name, f"{module}.{name.name}"


def _definitions(tree: Tree) -> Iterator[Binding]:
    for function in tree.functions:
        yield function, function.name, ""
    for node in tree.classes:
        yield node, node.name, ""
    for argument in tree.every(ast.arg):
        yield argument, argument.arg, ""
    for handler in tree.every(ast.ExceptHandler):
        if handler.name:
            yield handler, handler.name, ""


def _stored(tree: Tree) -> Iterator[Binding]:
    for name in tree.every(ast.Name):
        if isinstance(name.ctx, ast.Load):
            continue
        parent = tree.parent(name)
        plain = isinstance(parent, ast.Assign) and (_is_alias(parent) or _is_none(parent.value))
        if not plain:
            yield name, name.id, ""
    for capture in tree.every(ast.MatchAs):
        if capture.name:
            yield capture, capture.name, ""


def _is_alias(assign: ast.Assign) -> bool:
    return isinstance(assign.value, ast.Name | ast.Attribute)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
