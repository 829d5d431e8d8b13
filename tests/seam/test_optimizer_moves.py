import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn

FUSED = {
    "Adam": {"lr": 1e-2},
    "AdamW": {"lr": 1e-2, "weight_decay": 0.1},
    "SGD": {"lr": 1e-2, "momentum": 0.9},
    "Adagrad": {"lr": 1e-2},
}


def train(name, steps=5, **kwargs):
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = getattr(torch.optim, name)(model.parameters(), **{**FUSED.get(name, {}), **kwargs})
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().sum().backward()
        optimizer.step()
    return optimizer, model.weight.detach().clone()


@pytest.mark.parametrize("name", FUSED)
def test_fused_steps_by_the_same_formula(name):
    plain, weights = train(name)
    assert not plain.param_groups[0].get("fused")
    with on("fused_optimizer") as seams:
        optimizer, fused = train(name)
        assert optimizer.param_groups[0]["fused"] is True
    assert seams.holds["fused_optimizer"]
    assert not seams.inerts
    assert torch.allclose(weights, fused, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("Adam", {"foreach": True}),
        ("AdamW", {"foreach": True}),
        ("SGD", {"differentiable": True}),
        ("Adam", {"capturable": True}),
        ("AdamW", {"fused": False}),
        ("Adam", {"lr": torch.tensor(0.1)}),
        ("RMSprop", {"lr": 0.1}),
    ],
)
def test_fused_leaves_alone(name, kwargs):
    with on("fused_optimizer") as seams:
        parameter = nn.Parameter(torch.zeros(2))
        optimizer = getattr(torch.optim, name)([parameter], **kwargs)
        assert not optimizer.param_groups[0].get("fused")
    assert not seams.holds


def test_an_optimizer_with_a_step_of_its_own_is_left_alone():
    class Mine(torch.optim.SGD):
        def step(self, closure=None):
            return None

    with on("fused_optimizer") as seams:
        Mine([nn.Parameter(torch.zeros(2))], lr=0.1)
    assert not seams.holds


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_gradients_go_the_plain_way(name):
    def run():
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            table(torch.tensor([1, 2])).square().sum().backward()
            optimizer.step()
        return table.weight.detach()

    plain = run()
    with on("fused_optimizer") as seams:
        assert torch.equal(run(), plain)
    assert "sparse" in seams.inerts["fused_optimizer"]


def thawed(table, dense, optimizer):
    table.weight.requires_grad_(True)


def added(table, dense, optimizer):
    table.weight.requires_grad_(True)
    optimizer.add_param_group({"params": list(table.parameters())})


@pytest.mark.parametrize("begin", [thawed, added])
@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_gradients_that_begin_later_go_the_plain_way(name, begin):
    def run():
        torch.manual_seed(0)
        table, dense = nn.Embedding(5, 3, sparse=True), nn.Linear(3, 3)
        table.weight.requires_grad_(False)
        first = [*dense.parameters(), *(table.parameters() if begin is thawed else ())]
        optimizer = getattr(torch.optim, name)(first, lr=0.1)
        for step in range(4):
            if step == 2:
                begin(table, dense, optimizer)
            optimizer.zero_grad()
            dense(table(torch.tensor([1, 2]))).square().sum().backward()
            optimizer.step()
        return table.weight.detach()

    plain = run()
    with on("fused_optimizer") as seams:
        assert torch.allclose(run(), plain, rtol=1e-5)  # two steps of rounding
    assert "sparse" in seams.inerts["fused_optimizer"]


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_gradients_that_are_sparse_in_some_steps_only(name, scaled):
    def run():
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=64.0)
        for step in range(6):
            optimizer.zero_grad()
            seen = table(torch.tensor([1, 2])) if step % 2 else table.weight[1:3]
            loss = seen.square().sum() * (float("inf") if step == 3 and scaled else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return table.weight.detach()

    plain = run()
    with on("fused_optimizer") as seams:
        assert torch.allclose(run(), plain, rtol=1e-5)
    assert "sparse" in seams.inerts["fused_optimizer"]


def test_a_gradient_in_another_order_than_its_parameter_goes_the_plain_way():
    def run():
        weight = nn.Parameter(torch.arange(12.0).reshape(3, 4))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        weight.grad = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).T
        optimizer.step()
        return weight.detach()

    plain = run()
    with on("fused_optimizer") as seams:
        assert torch.equal(run(), plain)
    assert "another order" in seams.inerts["fused_optimizer"]


def test_gradients_are_dropped():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for owner in (optimizer, model):
        with on("grads_to_none") as seams:
            model(torch.ones(1, 2)).sum().backward()
            owner.zero_grad()
            assert not seams.holds
            model(torch.ones(1, 2)).sum().backward()
            owner.zero_grad(set_to_none=False)
            assert model.weight.grad is None
            assert seams.holds
    model(torch.ones(1, 2)).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert model.weight.grad is not None


def test_anomaly_detection_stays_off():
    enabled = torch.is_anomaly_enabled
    with on("debug_off") as seams:
        torch.autograd.set_detect_anomaly(True)
        assert not enabled()
        assert torch.is_anomaly_enabled()  # what the script asked for
        with torch.autograd.detect_anomaly():
            assert not enabled()
    assert seams.holds
    assert torch.is_anomaly_enabled()  # the script asked for it
    torch.autograd.set_detect_anomaly(False)


def test_anomaly_detection_that_was_never_on():
    with on("debug_off") as seams:
        torch.autograd.set_detect_anomaly(False)
    assert not seams.holds
    assert not torch.is_anomaly_enabled()


def test_flags_and_calls_are_undone():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    benchmark = torch.backends.cudnn.benchmark
    with on("cpu_threads", "tf32", "cudnn_benchmark", threads=1) as seams:
        assert torch.get_num_threads() == 1
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.benchmark is True
    assert set(seams.holds) == {"cpu_threads", "tf32", "cudnn_benchmark"}
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == precision
    assert torch.backends.cudnn.benchmark == benchmark
