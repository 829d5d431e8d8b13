"""One engine for the moves that are data: keywords of calls, global flags, setters, environment."""

import ast
from collections.abc import Callable
from typing import Any

from hotlap.core.move import Call, Choice, Env, Flag, Keyword, Move, Swap, Wrap
from hotlap.seam.patch import load
from hotlap.source.patch.calls import add_argument
from hotlap.source.patch.draft import Draft, code_of
from hotlap.source.patch.imports import head_end, import_place, spelt
from hotlap.source.patch.predicates import refusal
from hotlap.source.signatures import DEFAULTS, POSITIONS
from hotlap.source.tree import method, receiver


def write(move: Move, draft: Draft) -> None:
    """Write one move into a draft; what it cannot write it says."""
    _WRITERS[type(move)](move, draft)


def can_write(move: Move) -> bool:
    """Whether there is anything to write or say for a move."""
    match move:
        case Wrap():
            return bool(move.edit)
        case Swap():
            return bool(move.written)
        case _:
            return True


def _value(draft: Draft, raw: object) -> object:
    return draft.values[raw.name] if isinstance(raw, Choice) else raw


# Keyword


def _keyword(move: Keyword, draft: Draft) -> None:
    seen: set[ast.Call] = set()
    for target in move.targets:
        for call in _calls(draft, target):
            if call not in seen:
                seen.add(call)
                _judge(move, draft, target, call)
    names = ", ".join(sorted({target.rpartition(".")[2] for target in move.targets}))
    value = code_of(_value(draft, move.value))
    draft.nothing_here(
        f"no call of {names} that takes it was found: pass {move.name}={value} where it is called"
    )


def _calls(draft: Draft, target: str) -> list[ast.Call]:
    """Calls of a function or class, or of a method by its name."""
    owner, _, name = target.rpartition(".")
    if not owner.rpartition(".")[2][:1].isupper():
        return draft.source.calls(target) + _subclassed(draft, target)
    found = [call for call in draft.source.tree.calls if method(call) == name]
    return [c for c in found if draft.script.origins.instance_of(receiver(c)) is None]  # type: ignore[arg-type]


def _subclassed(draft: Draft, target: str) -> list[ast.Call]:
    """Calls of the user's own subclasses: never changed, only said."""
    own = {c for c in draft.source.tree.classes
           for base in c.bases if draft.source.names.of(base) == target}  # fmt: skip
    for call in draft.source.tree.calls:
        found = draft.script.origins.class_of(call)
        if found in own:
            kind = target.rpartition(".")[2]
            draft.by_hand(call, f"{found.name} is a {kind} of your own: see what it passes on")
    return []


def _judge(move: Keyword, draft: Draft, target: str, call: ast.Call) -> None:
    value = code_of(_value(draft, move.value))
    wish = f"{move.name}={value}"
    arguments = draft.source.arguments(call, target)
    if arguments is None or len(call.args) > len(POSITIONS.get(target, ())):
        draft.by_hand(call, f"its arguments are not spelt out in this file: pass {wish}")
        return
    if any(_rules_out(draft, target, arguments, *pair) for pair in move.unless):
        return
    unclear = next((n for n, _ in move.unless if _unclear(draft, arguments, n)), "")
    present = arguments.get(move.name)
    if present is None and not move.absent:
        draft.already = True
        return
    if present is not None and not _replaceable(move, draft, call, present, wish):
        return
    if unclear:
        shown = ast.unparse(arguments[unclear])
        draft.by_hand(call, f"pass {wish}, as far as {unclear}={shown} allows it")
        return
    if reason := refusal(move.when, draft, arguments):
        draft.by_hand(call, f"left alone, because {reason}; if it may be, pass {wish}")
    elif present is None:
        add_argument(draft, call, move.name, value)
    else:
        draft.changes.code(present, value)


def _rules_out(
    draft: Draft, target: str, arguments: dict[str, ast.expr], name: str, value: object
) -> bool:
    """Whether an argument, given or by default, has the value that keeps a call as it is."""
    if name not in arguments:
        return (target, name) in DEFAULTS and bool(DEFAULTS[target, name] == value)
    return draft.literal(arguments[name]) == (value,)


def _unclear(draft: Draft, arguments: dict[str, ast.expr], name: str) -> bool:
    return name in arguments and draft.literal(arguments[name]) is None


def _replaceable(move: Keyword, draft: Draft, call: ast.Call, present: ast.expr, wish: str) -> bool:
    """Whether the value that is given is one to be replaced."""
    now = draft.literal(present)
    if now is None:
        shown = ast.unparse(present)
        if _follows(draft, present, code_of(_value(draft, move.value))):
            draft.already = True
        else:
            draft.by_hand(call, f"{move.name} is {shown} here: let it be {wish.partition('=')[2]}")
        return False
    if now == (_value(draft, move.value),):
        draft.already = True
        return False
    return any(now[0] == old and type(now[0]) is type(old) for old in move.over)


def _follows(draft: Draft, node: ast.expr, code: str) -> bool:
    """Whether a name has been given this very value."""
    origin = draft.script.origins.only(node)
    return isinstance(origin, ast.Constant) and code_of(origin.value) == code


# Flag and Call


def _flag(move: Flag, draft: Draft) -> None:
    value = _value(draft, move.value)
    for name, unwanted in move.unless:
        for node, found in _settings(draft, name):
            if draft.literal(found) == (unwanted,):
                wish = f"{move.target} = {code_of(value)}"
                draft.by_hand(node, f"left alone, because this asks for the opposite of {wish}")
                return
    _set_once(draft, move.target, value, lambda n: f"{n} = {code_of(value)}")


def _call(move: Call, draft: Draft) -> None:
    value = _value(draft, move.value)
    _set_once(draft, move.target, value, lambda name: f"{name}({code_of(value)})")


def _set_once(draft: Draft, target: str, value: object, code: Callable[[str], str]) -> None:
    """Set it after the imports of the script, unless the script sets it itself."""
    settings = _settings(draft, target)
    for node, found in settings:
        if draft.literal(found) == (value,):
            draft.already = True
        else:
            draft.by_hand(node, f"the script sets this itself: `{code(target)}` was measured")
    if settings or not draft.entry or not draft.source.tree.module.body:
        return
    head, below_setting = head_end(draft)
    statement = code(spelt(draft, target))
    if head is None or (draft.changes and not _follows_import(draft, target, head)):
        place = draft.source.tree.module.body[0]
        module, _, name = target.rpartition(".")
        needed = "import torch" if module.startswith("torch") else f"from {module} import {name}"
        draft.by_hand(place, f"write `{needed}` and `{statement}` before anything else")
        draft.changes.clear()
    else:
        draft.changes.insert_after(head, statement, apart=not below_setting)


def _follows_import(draft: Draft, target: str, head: ast.stmt) -> bool:
    """Whether the import that was just added for a target stands above what comes after `head`."""
    module = target.rpartition(".")[0]
    return not module.startswith("torch") and import_place(draft, module).lineno <= head.lineno


def _settings(draft: Draft, target: str) -> list[tuple[ast.AST, ast.expr | None]]:
    """Where a file sets an attribute or calls a setter, with the value."""
    found: list[tuple[ast.AST, ast.expr | None]] = []
    for node in draft.source.tree.nodes:
        if isinstance(node, ast.Assign):
            found += [
                (node, node.value) for t in node.targets if draft.source.names.of(t) == target
            ]
    for call in draft.source.calls(target):
        found.append((call, call.args[0] if call.args else None))
    return found


# Swap


def _swap(move: Swap, draft: Draft) -> None:
    """Call the public function instead, with the same arguments."""
    if not move.written:
        return
    for call in draft.source.calls(move.targets[0]):
        draft.changes.code(call.func, spelt(draft, move.written))
    draft.already = draft.already or bool(draft.source.calls(move.written))
    name = move.targets[0].rpartition(".")[2]
    draft.nothing_here(f"no call of {name} was found: call {move.written} where it is needed")


# Env and Wrap


def _env(move: Env, draft: Draft) -> None:
    if draft.entry:
        line = f"export {move.name}={_value(draft, move.value)}"
        draft.by_hand(None, f"`{line}` in the shell: it must be set before Python starts")
    if move.edit:
        load(move.edit)(draft)


def _wrap(move: Wrap, draft: Draft) -> None:
    if move.edit:
        load(move.edit)(draft)


_WRITERS: dict[type, Callable[[Any, Draft], None]] = {
    Keyword: _keyword,
    Flag: _flag,
    Call: _call,
    Env: _env,
    Swap: _swap,
    Wrap: _wrap,
}
