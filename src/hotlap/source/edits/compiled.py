"""`torch.compile`, once, after the optimizer has the model's parameters."""

import ast

from hotlap.source.patch.draft import Draft, UnsureError, code_of
from hotlap.source.patch.imports import spelt
from hotlap.source.tree import method, receiver

_SAVES = ("state_dict", "load_state_dict")


def compiled(draft: Draft) -> None:
    """Compile the model in the chosen mode."""
    _compile(draft, draft.values["mode"])


def graphed(draft: Draft) -> None:
    """Compile the model into CUDA graphs, unless its outputs are kept from step to step."""
    for call in draft.script.model_calls:
        kept = _kept(draft, call)
        if kept is not None:
            raise UnsureError(
                kept,
                "an output outlives its step, but the graph writes over it: append a .clone(), "
                'then `model = torch.compile(model, mode="reduce-overhead")`',
            )
    _compile(draft, "reduce-overhead")


def _compile(draft: Draft, mode: object) -> None:
    script = draft.script
    options = "" if mode == "default" else f"mode={code_of(mode)}"
    wish = f"torch.compile(model{', ' if options else ''}{options})"
    if _is_compiled(draft):
        draft.already = True
    elif script.model is None:
        draft.nothing_here(
            f"{script.why_no_model}: `model = {wish}` once, after the optimizer is made",
            *script.optimizers,
        )
    else:
        last = script.optimizers[-1]
        target, in_place = _target(draft, script.owners[-1])
        if in_place and draft.source.names.of(script.model.func).startswith("torch.nn."):
            raise UnsureError(
                last,
                f"`{wish}`, and save and load the weights of the uncompiled model: its own "
                ".compile() passes over a plain torch.nn container",
            )
        code = f"{target}.compile({options})"
        if not in_place:
            arguments = ", ".join(filter(None, (target, options)))
            code = f"{target} = {spelt(draft, 'torch.compile')}({arguments})"
        draft.changes.insert_after(draft.source.tree.statement(last), code)


def _is_compiled(draft: Draft) -> bool:
    for call in draft.source.tree.calls:
        dotted = draft.source.names.of(call.func)
        owner = receiver(call)
        if dotted == "torch.compile":
            return True
        if method(call) == "compile" and owner is not None and draft.script.is_model(owner):
            return True
    return any(
        draft.source.names.of(getattr(d, "func", d)) == "torch.compile"
        for f in draft.source.tree.functions
        for d in f.decorator_list
    )


def _target(draft: Draft, owner: ast.expr) -> tuple[str, bool]:
    """The name to compile, and whether in place: there, whoever holds the model follows.

    In place where it is a parameter, which the caller holds too, and where its weights are saved
    or loaded, because `torch.compile(model)` would give them other names.
    """
    shown, tree = ast.unparse(owner), draft.source.tree
    saved = any(
        method(c) in _SAVES and (o := receiver(c)) is not None and draft.script.is_model(o)
        for c in tree.calls
    )
    if isinstance(owner, ast.Attribute):
        return shown, saved
    home = draft.script.origins.scope_of(owner) if isinstance(owner, ast.Name) else None
    bound = draft.script.origins.bound(home, shown) if home is not None else []
    borrowed = home is not tree.scope(owner) or any(isinstance(b, ast.arg) for b in bound)
    return shown, saved or borrowed


def _kept(draft: Draft, call: ast.Call) -> ast.AST | None:
    """Where an output of a call of the model is put into a list."""
    function = draft.source.tree.function(call) or draft.source.tree.module
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or method(node) not in {"append", "extend"}:
            continue
        if node.args and draft.script.origins.only(node.args[0]) is call:
            return node
    return None
