"""The roles in a script: what most likely plays them, and what certainly does."""

from pathlib import Path

import pytest

from hotlap.source.module import Source

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
MADE = (
    "model = torch.nn.Linear(4, 4).to(device)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "train_loader = DataLoader(data)\n"
)
LOOP = (
    "for i, (x, y) in enumerate(train_loader):\n"
    "    loss = model(x).sum()\n"
    "    loss.backward()\n"
    "    optimizer.step()\n"
)
FUNCTION = "def train(model, optimizer, train_loader):\n" + "".join(
    f"    {line}\n" for line in LOOP.splitlines()
)


def roles(code):
    """The script model of some code."""
    return Source(Path("x.py"), (HEAD + code).encode()).script


@pytest.mark.parametrize(
    "code",
    [
        MADE + LOOP,
        FUNCTION + MADE + "train(model, optimizer, train_loader)\n",
        FUNCTION + MADE + "train(optimizer=optimizer, model=model, train_loader=train_loader)\n",
    ],
)
def test_what_the_file_makes_is_certain(code):
    script = roles(code)
    assert len(script.optimizers) == 1
    assert script.model is not None
    assert [call.func.id for call in script.model_calls] == ["model"]
    assert [step.certain for step in script.steps] == [True]
    assert [(one.certain, one.names) for one in script.batch_loops] == [(True, {"x", "y"})]
    assert [call.lineno for call in script.backward_calls] == [script.steps[0].backward.lineno]


@pytest.mark.parametrize(
    "code",
    [
        FUNCTION,
        FUNCTION + MADE + "train(model, optimizer, train_loader)\nfit(train)\n",
        FUNCTION + MADE + "train(*made)\n",
        "from parts import model, optimizer, train_loader\n" + LOOP,
    ],
)
def test_what_comes_from_elsewhere_is_likely_and_never_certain(code):
    script = roles(code)
    assert script.model_calls == []
    assert [step.certain for step in script.steps] == [False]
    assert [one.certain for one in script.batch_loops] == [False]
    assert script.backward_calls == []


@pytest.mark.parametrize("declared", ["global", "nonlocal"])
def test_a_name_that_a_function_declares_is_that_of_the_outer_scope(declared):
    body = (
        f"    def make():\n        {declared} net\n        net = torch.nn.Linear(4, 4)\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    )
    script = roles("def main():\n    net = None\n" * (declared == "nonlocal") + (
        "net = None\ndef main():\n" * (declared == "global")) + body)  # fmt: skip
    made_of = script.origins.of(script.owners[0])
    assert {type(node).__name__ for node in made_of} == {"Constant", "Call"}
