"""What the names of a module stand for: dotted names, through imports, aliases and scopes.

A name that is bound to anything else in its scope, or to two different imports, resolves to
nothing: it is left alone rather than guessed.
"""

import ast
import re

from hotlap.source.tree import Scope, Tree

# Where torch defines what it exports elsewhere; people import from both.
_CANONICAL = (
    (re.compile(r"^torch\.utils\.data\.(?:dataloader|dataset|distributed|sampler)\."),
     "torch.utils.data."),
    (re.compile(r"^torch\.nn\.modules\.\w+\.(?=[A-Z])"), "torch.nn."),
    (re.compile(r"^torch\.nn\.parallel\.(?:data_parallel\.)?DataParallel$"),
     "torch.nn.DataParallel"),
    (re.compile(r"^torch\.nn\.parallel\.distributed\."), "torch.nn.parallel."),
    (re.compile(r"^torch\.optim\.[a-z_0-9]+\.(?=[A-Z])(?<!lr_scheduler\.)"), "torch.optim."),
    (re.compile(r"^torch\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.amp."),
    (re.compile(r"^torch\.cuda\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.cuda.amp."),
    (re.compile(r"^np\."), "numpy."),
)  # fmt: skip


def canonical(dotted: str) -> str:
    """The name under which torch documents it."""
    for pattern, documented in _CANONICAL:
        dotted = pattern.sub(documented, dotted)
    return dotted


class Names:
    """Resolves expressions of one module to dotted names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._bound: dict[Scope, dict[str, str]] = {}
        for node in tree.nodes:
            self._bind(node)

    def of(self, node: ast.AST) -> str:
        """The dotted name behind a name or attribute chain; empty when not known.

        A name bound nowhere in the module stands for itself: `print`, `len`.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        head = self._lookup(node)
        return canonical(".".join([head, *reversed(parts)])) if head else ""

    def _lookup(self, node: ast.Name) -> str:
        for scope in self._tree.scopes(node):
            bound = self._bound.get(scope)
            if bound is not None and node.id in bound:
                return bound[node.id]
        return node.id

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for name in names:
                    top = name.name if name.asname else name.name.partition(".")[0]
                    self._put(node, name.asname or top, top)
            case ast.ImportFrom(module=module, names=names, level=level):
                origin = "." * level + (module or "")
                for name in names:
                    self._put(node, name.asname or name.name, f"{origin}.{name.name}")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute()):
                self._put(node, name, self.of(node.value))
            case ast.Name(id=name, ctx=ast.Store()) if not self._is_alias(node):
                self._put(node, name, "")
            case ast.arg(arg=name):
                self._put(node, name, "")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._put(node, name, "")
            case ast.ClassDef(name=name):
                self._put(node, name, "")
            case ast.ExceptHandler(name=str(name)):
                self._put(node, name, "")

    def _is_alias(self, node: ast.AST) -> bool:
        parent = self._tree.parent(node)
        return (
            isinstance(parent, ast.Assign)
            and len(parent.targets) == 1
            and isinstance(parent.value, ast.Name | ast.Attribute)
        )

    def _put(self, node: ast.AST, name: str, dotted: str) -> None:
        bound = self._bound.setdefault(self._tree.scope(node), {})
        if name in bound and canonical(bound[name]) != canonical(dotted):
            dotted = ""
        bound[name] = dotted
