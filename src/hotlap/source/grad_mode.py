"""Where gradients are switched off."""

import ast

from hotlap.source.names import Names
from hotlap.source.tree import Tree

_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad",
                  "torch.autograd.inference_mode"})  # fmt: skip
_SWITCH = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})


class GradMode:
    """The places of one module at which autograd records nothing."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree, self._names = tree, names
        self._switches = [call for call in tree.calls if names.of(call.func) in _SWITCH]

    def off(self, node: ast.AST) -> bool:
        """Whether gradients are off around a node: `with`, decorator, or switched before it."""
        if any(map(self.switches_off, self._tree.contexts(node))):
            return True
        where = self._tree.function(node) or self._tree.module
        return any(
            self.switches_off(call)
            and isinstance(self._tree.parent(call), ast.Expr)
            and call.lineno < getattr(node, "lineno", 0)
            and (self._tree.function(call) or self._tree.module) is where
            for call in self._switches
        )

    def switches_off(self, node: ast.expr) -> bool:
        """`no_grad()`, `inference_mode()`, `set_grad_enabled(anything but True)`, or their name."""
        call = node if isinstance(node, ast.Call) else None
        dotted = self._names.of(call.func if call else node)
        if call is None or dotted not in _SWITCH:
            return dotted in _OFF
        first = call.args[0] if call.args else None
        return not (isinstance(first, ast.Constant) and first.value is True)
