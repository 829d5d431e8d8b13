"""What the variables of a module hold: a model, an optimizer, a loader, a tensor with a graph.

Names (`model`, `self.model`) get kinds from what they are assigned, from how they are used, and
from what calls in the same file pass to their function. What stays unknown has no kind.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from hotlap.source.names import Names
from hotlap.source.tree import Scope, Tree, method, receiver, text

MODEL, OPTIMIZER, LOADER, CRITERION, SCALER = "model", "optimizer", "loader", "criterion", "scaler"
TENSOR, GRAPH, ARRAY, DATASET, SCHEDULER = "tensor", "graph", "array", "dataset", "scheduler"

_CONSTRUCTORS = {
    "torch.utils.data.DataLoader": LOADER,
    "torch.amp.GradScaler": SCALER,
    "torch.cuda.amp.GradScaler": SCALER,
    "torch.compile": MODEL,
    "torch.nn.DataParallel": MODEL,
    "torch.nn.parallel.DistributedDataParallel": MODEL,
    "timm.create_model": MODEL,
    "torch.hub.load": MODEL,
}
_USES = {
    "zero_grad": OPTIMIZER,
    "eval": MODEL,
    "parameters": MODEL,
    "named_parameters": MODEL,
    "backward": GRAPH,
}
_LOSSES = frozenset(
    [
        "cross_entropy",
        "mse_loss",
        "nll_loss",
        "l1_loss",
        "smooth_l1_loss",
        "binary_cross_entropy",
        "kl_div",
        "huber_loss",
        "binary_cross_entropy_with_logits",
        "ctc_loss",
        "triplet_margin_loss",
    ]
)
_LEAVES_TORCH = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "size",
        "dim",
        "numel",
        "backward",
        "is_contiguous",
        "type",
        "element_size",
        "data_ptr",
    ]
)
_NO_GRAPH = frozenset(
    [
        "detach",
        "detach_",
        "argmax",
        "argmin",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "long",
        "int",
        "bool",
    ]
)
_SHAPES = frozenset(["shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "grad_fn"])
_KEEPS_KIND = {
    MODEL: frozenset(
        [
            "to",
            "cuda",
            "cpu",
            "train",
            "eval",
            "half",
            "float",
            "double",
            "bfloat16",
            "requires_grad_",
        ]
    )
}


class Values:
    """The kinds of the names and expressions of one module."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree, self._names = tree, names
        self._kinds: dict[tuple[Scope | None, str], set[str]] = defaultdict(set)
        self._classes = {c.name: kind for c in tree.classes if (kind := self.class_kind(c))}
        self._functions = {f.name: f for f in tree.functions if tree.class_of(f) is None}
        self._uses()
        for _ in range(4):
            before = sum(map(len, self._kinds.values()))
            self._pass()
            if sum(map(len, self._kinds.values())) == before:
                return

    def class_kind(self, node: ast.ClassDef) -> str:
        """What instances of a class of this module are: a model, a dataset, or unknown."""
        for base in node.bases:
            dotted = self._names.of(base)
            last = dotted.rpartition(".")[2]
            if dotted == "torch.nn.Module" or last in {"LightningModule", "PreTrainedModel"}:
                return MODEL
            if dotted.startswith("torch.utils.data.") and last.endswith("Dataset"):
                return DATASET
            if dotted.startswith("torch.nn.") and last[:1].isupper():
                return MODEL
            local = [c for c in self._tree.classes if c.name == text(base) and c is not node]
            if local and self.class_kind(local[0]):
                return self.class_kind(local[0])
        return ""

    def are(self, node: ast.AST, kind: str) -> bool:
        """Whether an expression is of a kind."""
        return kind in self.kinds(node)

    def kinds(self, node: ast.AST) -> frozenset[str]:
        """The kinds of an expression."""
        match node:
            case ast.Name() | ast.Attribute():
                return self._of_name(node)
            case ast.Call():
                return self._of_call(node)
            case ast.BinOp(left=left, right=right):
                return (self.kinds(left) | self.kinds(right)) & {TENSOR, GRAPH, ARRAY}
            case ast.UnaryOp(operand=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.kinds(inner)
            case ast.Subscript(value=inner):
                return self.kinds(inner) & {TENSOR, GRAPH, ARRAY}
            case ast.Compare(left=left, ops=ops):
                plain = any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in ops)
                return frozenset() if plain else self.kinds(left) & {TENSOR, ARRAY}
            case ast.IfExp(body=body, orelse=other):
                return self.kinds(body) | self.kinds(other)
        return frozenset()

    def _of_name(self, node: ast.Name | ast.Attribute) -> frozenset[str]:
        name = text(node)
        if isinstance(node, ast.Attribute):
            inner = self.kinds(node.value) & {TENSOR, GRAPH}
            if inner and node.attr in _SHAPES:
                return frozenset()
            if inner and node.attr == "data":
                return frozenset({TENSOR})
            if inner:
                return inner
        if name.startswith("self."):
            return frozenset(self._kinds[self._tree.class_of(node), name])
        for scope in self._tree.scopes(node):
            if (scope, name) in self._kinds:
                return frozenset(self._kinds[scope, name])
        return frozenset()

    def _of_call(self, call: ast.Call) -> frozenset[str]:
        dotted = self._names.of(call.func)
        if kind := self._constructed(dotted, call):
            return frozenset({kind})
        last = dotted.rpartition(".")[2]
        if dotted.startswith("torch.nn.functional."):
            return self._passed_on(call) or frozenset({TENSOR})
        if dotted.startswith("torch.") and last[:1].islower():
            return self._torch_function(dotted, call)
        if dotted.startswith("numpy."):
            return frozenset({ARRAY})
        of_function = self.kinds(call.func) & {MODEL, CRITERION}
        if of_function:
            return frozenset({TENSOR, GRAPH})
        return self._of_method(call)

    def _torch_function(self, dotted: str, call: ast.Call) -> frozenset[str]:
        if dotted in {"torch.load", "torch.device", "torch.save", "torch.manual_seed"}:
            return frozenset()
        if dotted.count(".") > 1 and not dotted.startswith(("torch.linalg.", "torch.fft.")):
            return frozenset()
        return self._passed_on(call) or frozenset({TENSOR})

    def _passed_on(self, call: ast.Call) -> frozenset[str]:
        """A function of tensors keeps their graph."""
        found = [self.kinds(argument) for argument in call.args]
        return frozenset({TENSOR, GRAPH}) if any(GRAPH in kinds for kinds in found) else frozenset()

    def _constructed(self, dotted: str, call: ast.Call) -> str:
        last = dotted.rpartition(".")[2]
        if dotted in _CONSTRUCTORS:
            return _CONSTRUCTORS[dotted]
        if dotted.startswith("torch.optim.lr_scheduler."):
            return SCHEDULER
        if dotted.startswith("torch.optim.") and last[:1].isupper():
            return OPTIMIZER
        if dotted.startswith("torch.nn.") and last[:1].isupper() and last != "Parameter":
            return CRITERION if last.endswith("Loss") else MODEL
        if dotted.startswith("torchvision.models.") or (
            dotted.startswith("transformers.") and method(call) == "from_pretrained"
        ):
            return MODEL if "Tokenizer" not in dotted and "Processor" not in dotted else ""
        if dotted.startswith("torchvision.datasets."):
            return DATASET
        return self._classes.get(text(call.func), "")

    def _of_method(self, call: ast.Call) -> frozenset[str]:
        owner = receiver(call)
        if owner is None:
            return frozenset()
        name, kinds = method(call), self.kinds(owner)
        if MODEL in kinds and name in _KEEPS_KIND[MODEL]:
            return frozenset({MODEL})
        if MODEL in kinds and name == "forward":
            return frozenset({TENSOR, GRAPH})
        if ARRAY in kinds:
            return frozenset({ARRAY}) if name not in _LEAVES_TORCH else frozenset()
        kinds = kinds & {TENSOR, GRAPH}
        if not kinds or name in _LEAVES_TORCH:
            return frozenset({ARRAY}) if kinds and name == "numpy" else frozenset()
        return kinds - {GRAPH} if name in _NO_GRAPH else kinds

    def _uses(self) -> None:
        """A name that is told to `zero_grad()` is an optimizer, and so on."""
        for call in self._tree.calls:
            owner, name = receiver(call), method(call)
            if owner is None or name not in _USES or not text(owner) or text(owner) == "self":
                continue
            if name == "zero_grad" and self._is_module(owner):
                continue
            self._add(owner, {_USES[name]} | ({TENSOR} if name == "backward" else set()))

    def _is_module(self, node: ast.AST) -> bool:
        """`model.zero_grad()`: told apart by what else the name is asked."""
        asked = {method(c) for c in self._tree.calls if text(receiver(c) or c) == text(node)}
        return bool(asked & {"parameters", "train", "eval", "state_dict"}) and "step" not in asked

    def _pass(self) -> None:
        for node in self._tree.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.AugAssign(target=target, value=value):
                    self._add(target, self.kinds(value) & {TENSOR, GRAPH, ARRAY})
                case (
                    ast.For(target=target, iter=source)
                    | ast.comprehension(target=target, iter=source)
                ):
                    self._loop(target, source)
                case ast.Call():
                    self._call(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                for one, its in zip(target.elts, value.elts, strict=True):
                    self._assign(one, its)
                return
            kinds = self.kinds(value)
            if self._next_batch(value):
                kinds = frozenset({TENSOR})
            for one in target.elts:
                self._add(one, kinds & {TENSOR, GRAPH, ARRAY})
            return
        self._add(target, frozenset({TENSOR}) if self._next_batch(value) else self.kinds(value))

    def _next_batch(self, value: ast.AST) -> bool:
        return (
            isinstance(value, ast.Call)
            and self._names.of(value.func) == "next"
            and bool(value.args)
            and isinstance(value.args[0], ast.Call)
            and any(self.are(argument, LOADER) for argument in value.args[0].args)
        )

    def _loop(self, target: ast.expr, source: ast.expr) -> None:
        """The names of `for i, (x, y) in enumerate(loader)`."""
        if isinstance(source, ast.Call) and self._names.of(source.func) in {"enumerate", "zip"}:
            if isinstance(target, ast.Tuple) and source.args:
                counted = self._names.of(source.func) == "enumerate"
                pairs = (
                    [(target.elts[-1], source.args[0])]
                    if counted
                    else list(zip(target.elts, source.args, strict=False))
                )
                for one, its in pairs:
                    self._loop(one, its)
            return
        if isinstance(source, ast.Call) and source.args and not self.kinds(source):
            dotted = self._names.of(source.func)  # tqdm(loader), track(loader)
            if dotted.startswith(("tqdm", "rich.progress", "fastprogress")):
                self._loop(target, source.args[0])
            return
        if self.are(source, LOADER):
            for name in _names_of(target):
                self._add(name, {TENSOR})

    def _call(self, call: ast.Call) -> None:
        """What a call of a function of this file passes, its parameters are."""
        function = self._functions.get(text(call.func))
        if function is None:
            return
        parameters = [*function.args.posonlyargs, *function.args.args]
        given = [*zip(parameters, call.args, strict=False)]
        by_name = {p.arg: p for p in [*parameters, *function.args.kwonlyargs]}
        given += [(by_name[k.arg], k.value) for k in call.keywords if k.arg and k.arg in by_name]
        for parameter, value in given:
            if kinds := self.kinds(value):
                self._kinds[function, parameter.arg] |= kinds

    def _add(self, target: ast.AST, kinds: set[str] | frozenset[str]) -> None:
        name = text(target)
        if not name or not kinds:
            return
        if name.startswith("self."):
            self._kinds[self._tree.class_of(target), name] |= kinds
        else:
            self._kinds[self._owner(target, name), name] |= kinds

    def _owner(self, node: ast.AST, name: str) -> Scope:
        """The scope that knows the name already, or else the innermost one."""
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if not stored:
            for scope in self._tree.scopes(node):
                if (scope, name) in self._kinds or _has_parameter(scope, name):
                    return scope
        return self._tree.scope(node)


def _names_of(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _names_of(one)
    else:
        yield target


def _has_parameter(scope: Scope, name: str) -> bool:
    if isinstance(scope, ast.Module | ast.ClassDef):
        return False
    arguments = scope.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(argument.arg == name for argument in every)
