"""Pruning, quantisation, sparsity and distillation against plain references."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("torch_pruning")
pytest.importorskip("torchao")

from hotlap.data.errors import MissingPackageError
from hotlap.model import (
    attention_loss,
    cache_teacher,
    convert_qat,
    distillation_loss,
    distilled,
    finish_sparsity,
    fuse_conv_norm,
    hidden_state_loss,
    load_shrunk,
    prepare_qat,
    prune,
    pruning_schedule,
    quantize,
    sparsify,
)
from hotlap.model import pruning as pruning_module
from hotlap.model.pruning import PruningError, last_layers, parameter_count
from hotlap.model.rebuild import save_shrunk


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


class Tied(nn.Module):
    """Attention by hand with fixed sizes: its channels cannot be pruned, its hidden units can."""

    def __init__(self):
        super().__init__()
        self.tokens, self.qkv = nn.Embedding(64, 32), nn.Linear(32, 96)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        q, k, v = self.qkv(x).view(*ids.shape, 3, 4, 8).permute(2, 0, 3, 1, 4)
        read = functional.scaled_dot_product_attention(q, k, v)
        x = x + read.transpose(1, 2).reshape(*ids.shape, 32)
        return self.head(x + self.down(functional.gelu(self.up(x))))


IMAGES, IDS = torch.randn(3, 1, 8, 8), torch.randint(64, (2, 9))


@pytest.mark.parametrize("share", [0.6, 0.3])
def test_pruned_to_the_share_with_the_output_kept_and_the_model_left_alone(share):
    model = cnn().train()
    before = copy.deepcopy(model.state_dict())
    pruned = prune(model, (IMAGES,), share)
    assert share / 2 < parameter_count(pruned) / parameter_count(model) <= share
    assert pruned.training
    assert pruned(IMAGES).shape == (3, 10)
    assert pruned[3].out_channels % 4 == 0
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_a_transformer_of_fixed_sizes_loses_hidden_units():
    model = Tied()
    pruned = prune(model, (IDS,), 0.7)
    assert pruned.up.out_features < 128
    assert pruned.qkv.out_features == 96
    assert pruned.head.weight is pruned.tokens.weight
    assert pruned(IDS).shape == (2, 9, 64)


def test_the_smallest_go():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        model[0].weight[::2] = 0
        model[0].bias[::2] = 0
        model[2].weight[:, ::2] = 0
    inputs = torch.randn(5, 8)
    pruned = prune(model, (inputs,), 0.55)
    assert pruned[0].out_features == 8
    torch.testing.assert_close(pruned(inputs), model(inputs))


def test_what_cannot_be_pruned_says_why():
    with pytest.raises(PruningError, match=r"0\.5"):
        prune(nn.Linear(8, 4), (torch.randn(1, 8),), 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        prune(cnn(), (IMAGES,), 1.5)


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch):
    def absent(name):
        raise MissingPackageError("this needs torch-pruning")

    monkeypatch.setattr(pruning_module, "need", absent)
    with pytest.raises(MissingPackageError, match="torch-pruning"):
        prune(cnn(), (IMAGES,), 0.5)
    from hotlap.common.extras import how_to_install

    for module, package in (("torchao", "torchao"), ("torch_pruning", "torch-pruning")):
        assert (
            f"{package}, which is not installed: pip install 'hotlap[compress]'"
            in how_to_install(module)
        )


def test_the_last_layers_are_found_through_ties_and_branches():
    model = Tied()
    assert last_layers(model, (IDS,)) == [model.head]
    assert last_layers(cnn(), (IMAGES,))[0].out_features == 10


def test_the_schedule_is_that_of_the_paper():
    rates = [pruning_schedule(step, steps=100, final=0.8, begin=10) for step in range(130)]
    assert rates[:11] == [0.0] * 11
    assert rates[60] == pytest.approx(0.8 * (1 - 0.5**3))
    assert rates[110:] == [0.8] * 20
    assert rates == sorted(rates)


@pytest.mark.parametrize(("precision", "limit"), [
    ("int8", 0.02), ("int8_dynamic", 0.05), ("float8", 0.08)])  # fmt: skip
def test_quantised_weights_are_near(precision, limit):
    model = Tied().eval()
    small = quantize(model, precision)
    wanted = model(IDS)
    assert 0 < (small(IDS) - wanted).norm() / wanted.norm() < limit
    assert torch.equal(model(IDS), wanted)
    assert type(model.tokens.weight) is nn.Parameter


def test_int8_rounds_each_row_by_its_largest():
    layer = nn.Sequential(nn.Linear(64, 32, bias=False)).double().float().eval()
    weight = layer[0].weight.detach().double()
    scale = weight.abs().amax(1, keepdim=True) / 127.5
    off = quantize(layer)[0].weight.dequantize().double() - weight
    assert (off.abs() <= 0.51 * scale).all()


def test_what_cannot_be_quantised_says_so():
    with pytest.raises(ValueError, match="no linear layer"):
        quantize(nn.Sequential(nn.Conv2d(1, 1, 1)))
    with pytest.raises(ValueError, match="int8_dynamic"):
        quantize(cnn(), "int7")
    for precision in ("int4", "float8_dynamic"):
        with pytest.raises(ValueError, match=f"{precision} is for a model on a GPU"):
            quantize(Tied().eval(), precision)
    with pytest.raises(ValueError, match="float8"):
        prepare_qat(cnn(), "float8")


@pytest.mark.parametrize("precision", ["int8", "int8_dynamic", "int4"])
def test_training_with_rounded_weights_learns_and_converts(precision):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    plain = copy.deepcopy(model)
    inputs, labels = torch.randn(64, 32), torch.randint(4, (64,))
    prepare_qat(model, precision)
    assert not torch.equal(model(inputs), plain(inputs))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    if precision != "int4":  # whose kernel takes a GPU
        made = convert_qat(model, precision)
        wanted = model(inputs)
        assert (made(inputs) - wanted).norm() / wanted.norm() < 0.03


def test_two_of_four_largest_stay_through_training():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    weight = model[0].weight.detach().clone()
    assert sparsify(model) == ["0"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    finish_sparsity(model)
    kept = (model[0].weight != 0).reshape(-1, 4)
    assert (kept.sum(1) == 2).all()
    groups = weight.abs().reshape(-1, 4)
    assert torch.equal(kept, groups >= groups.sort(1).values[:, 2:3])
    assert "weight_mask" not in dict(model[0].named_buffers())
    with pytest.raises(ValueError, match="4:2"):
        sparsify(model, 4, 2)


def test_the_distillation_loss_and_its_gradient_in_float64():
    student = torch.randn(6, 5, dtype=torch.float64)
    teacher = torch.randn(6, 5, dtype=torch.float64)
    soft = (teacher / 3).softmax(-1)
    wanted = 9 * (soft * (soft.log() - (student / 3).log_softmax(-1))).sum(-1).mean()
    assert distillation_loss(student, teacher, 3.0).item() == pytest.approx(wanted.item(), rel=1e-5)
    same = student.clone().requires_grad_()
    distillation_loss(same, student).backward()
    assert same.grad.abs().max() < 1e-6


def test_hidden_states_and_attention():
    small, large = torch.randn(2, 3, 4), torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match="projection"):
        hidden_state_loss(small, large)
    project = nn.Linear(4, 8)
    wanted = (project(small) - large).square().mean()
    torch.testing.assert_close(hidden_state_loss(small, large, project), wanted)
    few, many = torch.randn(2, 2, 5, 5).softmax(-1), torch.randn(2, 4, 5, 5).softmax(-1)
    a, b = few.mean(1), many.mean(1)
    torch.testing.assert_close(attention_loss(few, many), (b * (b / a).log()).sum(-1).mean())
    assert attention_loss(many, many).item() == pytest.approx(0, abs=1e-6)


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 4)

    def forward(self, x):
        logits = self.net(x)
        return logits, functional.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))


@pytest.mark.parametrize("with_loss", [True, False])
def test_a_loop_as_it_is_gets_the_gradient_of_both_losses(with_loss):
    student = WithLoss() if with_loss else nn.Linear(6, 4)
    teacher, reference = copy.deepcopy(student), copy.deepcopy(student)
    for p in teacher.parameters():
        nn.init.normal_(p)
    x, labels = torch.randn(8, 6), torch.zeros(8, dtype=torch.long)

    def logits(model):
        return model(x)[0] if with_loss else model(x)

    with distilled(student, teacher, temperature=2.0, weight=0.7):
        loss = student(x)[1] if with_loss else functional.cross_entropy(student(x), labels)
        loss.backward()
    wanted = functional.cross_entropy(logits(reference), labels)
    (wanted + 0.7 * distillation_loss(logits(reference), logits(teacher), 2.0)).backward()
    for one, other in zip(student.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert all(p.grad is None for p in teacher.parameters())
    assert not student._forward_hooks


def test_the_teachers_outputs_in_a_store(tmp_path):
    teacher = cnn()
    samples = [(torch.randn(1, 8, 8), 0) for _ in range(10)]
    store = cache_teacher(teacher, samples, tmp_path / "logits", batch_size=4)
    for index, (image, _) in enumerate(samples):
        found = torch.tensor(store.sample(index)["data"])
        torch.testing.assert_close(found, teacher(image[None])[0].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("make", "inputs", "precision"), [
    (cnn, IMAGES, ""), (cnn, IMAGES, "int8"), (Tied, IDS, ""), (Tied, IDS, "int8_dynamic"),
])  # fmt: skip
def test_what_is_written_loads_again_bit_for_bit(make, inputs, precision, tmp_path):
    plain = fuse_conv_norm(prune(make(), (inputs,), 0.7).eval())
    final = quantize(plain, precision) if precision else plain
    save_shrunk(final, tmp_path, {"note": 1}, precision=precision, plain=plain)
    loaded = load_shrunk(make(), tmp_path)
    assert torch.equal(loaded(inputs), final(inputs))
    if make is Tied and not precision:
        assert loaded.head.weight is loaded.tokens.weight
    with pytest.raises(ValueError, match="the one"):
        load_shrunk(nn.Sequential(nn.Linear(3, 3)), tmp_path)


def test_a_latency_counts_by_the_lower_end_of_its_interval():
    from hotlap.model.shrink import Job, Result, Shrinking, gain

    def result(*latency):
        return Result("", {}, 1, 1, latency, 1.0, [1.0])

    run = object.__new__(Shrinking)
    run.job = Job("", "", "", latency=2.0)
    run.original, run.quality, run.bytes = torch.nn.Linear(1, 1), 1.0, 1
    lucky, steady = result(3.0, 1.5, 6.0), result(2.5, 2.2, 2.6)
    for one in (lucky, steady):
        run.judge(one)
    assert lucky.fails == ["latency"]
    assert steady.meets
    assert gain(steady) > gain(lucky)
