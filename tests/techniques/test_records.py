import ast
import inspect

import pytest

from hotlap.core import choices
from hotlap.core.machine import Gpu, Machine
from hotlap.core.move import Call, Choice, Env, Flag, Keyword, Swap, Wrap, choice_of
from hotlap.core.registry import FOLDER, techniques
from hotlap.core.technique import How, Numerics

ALL = list(techniques().values())
IDS = [record.id for record in ALL]
CPU = Machine("cpu", 4, 2, 2**33, (), "Linux", "6", "x86_64")
GPU = Machine("cpu", 16, 8, 2**36, (Gpu("H200", 2**37),), "Linux", "6", "x86_64")
ISSUE = {
    "loader_workers": Numerics.EXACT,
    "pinned_memory": Numerics.EXACT,
    "persistent_workers": Numerics.EXACT,
    "prefetch_factor": Numerics.EXACT,
    "async_copy": Numerics.EXACT,
    "device_prefetch": Numerics.EXACT,
    "cached_dataset": Numerics.EXACT,
    "no_copy_from_numpy": Numerics.EXACT,
    "mixed_precision": Numerics.PRECISION,
    "tf32": Numerics.PRECISION,
    "cudnn_benchmark": Numerics.ROUNDING,
    "channels_last": Numerics.ROUNDING,
    "fused_pointwise": Numerics.ROUNDING,
    "cuda_graphs": Numerics.ROUNDING,
    "fused_optimizer": Numerics.ROUNDING,
    "grads_to_none": Numerics.EXACT,
    "no_grad_eval": Numerics.EXACT,
    "activation_checkpoint": Numerics.EXACT,
    "fragmentation": Numerics.EXACT,
    "debug_off": Numerics.EXACT,
    "cpu_threads": Numerics.ROUNDING,
}

each = pytest.mark.parametrize("record", ALL, ids=IDS)


def test_every_technique_of_the_issue_is_there():
    found = {record.id: record.numerics for record in ALL}
    assert {name: found.get(name) for name in ISSUE} == ISSUE


@each
def test_the_record_is_complete(record):
    for text in (record.title, record.why, record.changes, record.avoid):
        assert text == text.strip()
        assert "  " not in text
        assert len(text) > 10
    assert not record.title.endswith(".")
    assert record.how
    assert record.claims
    assert all(claim.text and claim.source for claim in record.claims)
    assert bool(record.moves) == (How.MOVE in record.how)
    assert all(need.fact.removeprefix("!").isidentifier() and need.reason for need in record.needs)
    if record.moves and not record.saves_memory and record.numerics is not Numerics.TRAINING:
        assert record.symptom is not None
    if record.symptom:
        assert 0 < record.symptom.gives <= 1


@each
def test_the_module_says_what_it_is(record):
    tree = ast.parse((FOLDER / f"{record.id}.py").read_text())
    assert ast.get_docstring(tree)
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert all(getattr(i, "module", "").startswith("hotlap.core") for i in imports)


@each
def test_the_examples_parse(record):
    written = any(not isinstance(move, Env) or move.edit for move in record.moves)
    assert any(example.after is not None for example in record.examples) or not written
    assert any(example.after is None for example in record.examples)
    for example in record.examples:
        ast.parse(example.before)
        if example.after is not None:
            assert example.after != example.before
            ast.parse(example.after)


@each
def test_conflicts_and_joins_name_techniques(record):
    known = techniques()
    assert set(record.joins) <= set(known)
    assert all(record.id in known[other].conflicts for other in record.conflicts)
    assert not set(record.joins) & set(record.conflicts)


OF_THE_SCRIPT = {"loader_not_persistent", "loader_rebuilt"}
"""What no technique grants that is joined: how the script makes its loaders."""


@each
def test_a_joined_technique_grants_what_is_needed(record):
    facts = {need.fact: True for need in record.needs if need.fact in OF_THE_SCRIPT}
    facts |= dict.fromkeys(("cuda", "loaders", "map_style", "loader_serial", "pageable"), True)
    facts["h2d_blocking"] = True
    if record.joins:
        for name in record.joins:
            assert not techniques()[name].missing(facts)
            facts.update(techniques()[name].grants)
        assert not record.missing(facts)


@each
@pytest.mark.parametrize("machine", [CPU, GPU], ids=["cpu", "gpu"])
def test_choices_have_values_on_any_machine(record, machine):
    names = [choice.name for choice in record.choices]
    assert len(names) == len(set(names))
    for choice in record.choices:
        values = choice.values
        if isinstance(values, str):
            values = getattr(choices, values)(machine)
        assert values
        assert len(values) == len(set(values))


@each
def test_targets_resolve(record):
    from hotlap.seam.patch import load, resolve

    for move in record.moves:
        for target in _targets(move):
            owner, name = resolve(target)
            assert hasattr(owner, name), target
        if isinstance(move, Keyword):
            _check_keyword(move)
        if isinstance(move, Wrap):
            function = load(move.function)
            assert list(inspect.signature(function).parameters) == ["context"]
            assert function.__doc__


def _targets(move):
    if isinstance(move, (Keyword, Swap)):
        return move.targets
    if isinstance(move, Call):
        return (move.target, move.getter)
    return (move.target,) if isinstance(move, Flag) else ()


def _check_keyword(move):
    from hotlap.seam.patch import load, resolve

    for target in move.targets:
        owner, name = resolve(target)
        parameters = inspect.signature(getattr(owner, name)).parameters
        assert move.name in parameters
    if move.when:
        assert callable(load(move.when))


@each
def test_a_choice_that_a_wrap_reads_is_declared(record):
    for move in record.moves:
        assert isinstance(choice_of(move), Choice) or not isinstance(move, Env) or move.value
