"""Trainers that keep the logits of a whole evaluation for a metric that needs their argmax."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method

_REDUCES = "preprocess_logits_for_metrics"


def argmax_of_gathered(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`Trainer(compute_metrics=f)` without `preprocess_logits_for_metrics`, and an argmax in f."""
    for call in source.tree.calls:
        metrics = keyword(call, "compute_metrics")
        trains = source.names.of(call.func).rpartition(".")[2].endswith("Trainer")
        if metrics is None or not trains or keyword(call, _REDUCES) is not None:
            continue
        function = metrics if isinstance(metrics, ast.Lambda) else source.values.named(metrics)
        found = _argmax_in(function) if function is not None else None
        if found is not None:
            yield found


def _argmax_in(function: ast.AST) -> ast.Call | None:
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return next((call for call in calls if method(call) == "argmax"), None)
