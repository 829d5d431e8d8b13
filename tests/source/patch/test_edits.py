# ruff: noqa: E501
"""The edits: what they write in real loops, and what they leave to a person, each beside its twin."""

import ast
import textwrap

import pytest
from patching import patched

from hotlap.core.recipe import Kept, Recipe
from hotlap.source.patch.plan import Patch, apply, patch
from hotlap.source.patch.text import File

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

"""


def script(body: str) -> str:
    return HEAD + textwrap.dedent(body).lstrip("\n")


def changed(name: str, body: str, **values) -> str:
    """The lines that a technique adds, without their indent."""
    before = script(body)
    after, _ = patched(before, name, **values)
    ast.parse(after)
    assert patched(after, name, **values)[0] == after
    old = before.splitlines()
    return "\n".join(line.strip() for line in after.splitlines() if line not in old)


def said(name: str, body: str, **values) -> list[str]:
    """What is left to do by hand, where nothing was changed."""
    before = script(body)
    after, done = patched(before, name, **values)
    assert after == before
    return [f"{note.line} {note.text}" for note in done.notes]


FUNCTIONS = """
    def train(net, loader, opt, device):
        net.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()


    def check(net, loader, device):
        net.eval()
        total = 0
        for x, y in loader:
            out = net(x.to(device))
            total += nn.functional.mse_loss(out, y.to(device)).item()
        return total


    def main():
        device = torch.device("cuda")
        model = nn.Linear(9, 9).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(data, pin_memory=True)
        train(model, loader, optimizer, device)
        print(check(model, loader, device))
    """


def test_autocast_goes_around_forward_and_loss_of_training_and_evaluation():
    lines = changed("mixed_precision", FUNCTIONS)
    head = "with torch.autocast(device.type, dtype=torch.bfloat16):"
    assert lines.count(head) == 2
    assert "out = net(x.to(device))" in lines
    assert "Scaler" not in lines


@pytest.mark.parametrize(
    ("step", "within", "widened"),
    [
        ("z = model(x)\nloss = torch.pdist(z).mean()", 1, True),
        ("loss = ((model(x) - y) ** 2).mean()", 1, True),
        ("out = model(x)\nscaled = out / 0.5\nloss = F.cross_entropy(scaled, y)", 1, True),
        ("p = model(x)\nloss = F.binary_cross_entropy(p, y)", 1, True),
        ("out = model(x).view(-1, 9)\nloss = F.cross_entropy(out, y)", 2, False),
        ("out = model(x)\nloss = F.mse_loss(out.squeeze(1), y.mean(1))", 2, False),
        ("out = model(x)\nloss = F.cross_entropy(out, y)\nloss = loss / 4 + 0.1", 3, False),
        ("out = model(x)\nloss = out.loss / 4", 2, False),
        ("logits, loss = model(x, y)\nloss = loss * 0.5", 2, False),
    ],
)
def test_a_loss_is_computed_in_float32_as_in_a_race(step, within, widened):
    body = f"""
        import torch.nn.functional as F

        model = nn.Linear(9, 9)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in xs:
            {step.replace(chr(10), chr(10) + " " * 12)}
            loss.backward()
            opt.step()
        """
    lines = changed("mixed_precision", body).splitlines()
    assert any("model(x).float()" in line for line in lines) == widened
    (head,) = [at for at, line in enumerate(lines) if "torch.autocast" in line]
    written = [line.replace(".float()", "") for line in lines[head + 1 :]]
    assert written == step.splitlines()[:within]


def test_float16_has_a_scaler_that_is_handed_to_the_function():
    lines = changed("mixed_precision", FUNCTIONS, dtype="float16").splitlines()
    for line in (
        "scaler = torch.amp.GradScaler()",
        "def train(net, loader, opt, device, scaler):",
        "train(model, loader, optimizer, device, scaler)",
        "scaler.scale(loss).backward()",
        "scaler.unscale_(opt)",
        "scaler.step(opt)",
        "scaler.update()",
    ):
        assert line in lines
    assert lines.index("scaler.unscale_(opt)") < lines.index("scaler.step(opt)")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (  # forward and backward on one line
            """
            model = nn.Linear(9, 9)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in xs:
                model(x).mean().backward()
                opt.step()
            """,
            "on the line of backward()",
        ),
        (  # two models
            """
            g, d = nn.Linear(9, 9), nn.Linear(9, 9)
            og = torch.optim.SGD(g.parameters(), lr=0.1)
            od = torch.optim.SGD(d.parameters(), lr=0.1)
            for x in xs:
                loss = d(g(x)).mean()
                loss.backward()
                og.step()
            """,
            "several models (g, d)",
        ),
        (  # the model comes from somewhere else
            """
            def train(model, opt, xs):
                for x in xs:
                    loss = model(x).mean()
                    loss.backward()
                    opt.step()
            """,
            "no torch optimizer is constructed",
        ),
        (  # NumPy has no bfloat16
            """
            model = nn.Linear(9, 9)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in xs:
                out = model(x)
                loss = nn.functional.mse_loss(out, x)
                loss.backward()
                opt.step()
                seen.append(out.detach().numpy())
            """,
            "`.float()` before `.numpy()`",
        ),
        (  # a function of one's own, which may take several outputs
            """
            model = nn.Linear(9, 9)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in xs:
                out = model(x)
                loss = elbo(out, x)
                loss.backward()
                opt.step()
            """,
            "`.float()` of its outputs before the loss",
        ),
        (  # several outputs, which would be rounded to 16 bits before the loss
            """
            model = nn.Linear(9, 9)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in xs:
                mean, spread = model(x)
                loss = nn.functional.mse_loss(mean, x) + spread.exp().mean()
                loss.backward()
                opt.step()
            """,
            "`.float()` of its outputs before the loss",
        ),
    ],
)
def test_autocast_is_left_to_a_person(body, reason):
    (note, *_) = said("mixed_precision", body)
    assert reason in note
    assert "autocast" in note


OF_ITSELF = """
    class Policy(nn.Module):
        def forward(self, x):
            return self.head(x)

        def evaluate(self, x):
            return self(x).log_softmax(-1)


    model = Policy()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in xs:
        loss = model.evaluate(x).mean()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(model(x))
    """


def test_a_forward_that_a_method_of_the_model_calls_is_left_to_a_person():
    _, done = patched(script(OF_ITSELF), "mixed_precision")
    (note,) = [note for note in done.notes if "the model calls itself here" in note.text]
    assert "self(x)" in script(OF_ITSELF).splitlines()[note.line - 1]


LOOP = """
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in xs:
        loss = model({x}).mean()
        loss.backward()
        opt.step()
    """
OF_PARAMETERS = "next(model.parameters()).device.type"


@pytest.mark.parametrize(
    ("made", "x", "kind"),
    [
        ("model = nn.Linear(9, 9)", "x", '"cpu"'),
        ("model = nn.Linear(9, 9).cuda()", "x.cuda()", '"cuda"'),
        ("device = torch.device('cuda:1')\nmodel = nn.Linear(9, 9)", "x.to(device)", "device.type"),
        (
            "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nmodel = nn.Linear(9, 9)",
            "x.to(device)",
            "device",
        ),
        (
            "device = torch.device('cpu')\nif torch.cuda.is_available():\n    device = torch.device('cuda')\n"
            "model = nn.Linear(9, 9)",
            "x.to(device)",
            "device.type",
        ),
        (
            "device = 'cuda:0' if torch.cuda.is_available() else 'cpu'\nmodel = nn.Linear(9, 9)",
            "x.to(device)",
            "torch.device(device).type",
        ),
        (
            "model = nn.Linear(9, 9)\nif torch.cuda.is_available():\n    model.cuda()",
            "x.cuda() if torch.cuda.is_available() else x",
            OF_PARAMETERS,
        ),
        (
            "model = nn.Linear(9, 9)\nif args.gpu:\n    model.to('cuda')",
            "x.to('cuda') if args.gpu else x",
            OF_PARAMETERS,
        ),
        (
            "torch.distributed.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')\n"
            "model = nn.Linear(9, 9)",
            "x",
            OF_PARAMETERS,
        ),
    ],
)
def test_autocast_is_told_the_device_that_the_script_chooses(made, x, kind):
    body = textwrap.dedent(made) + textwrap.dedent(LOOP.replace("{x}", x))
    assert f"with torch.autocast({kind}, dtype=torch.bfloat16):" in changed("mixed_precision", body)


def test_autocast_asks_the_model_where_another_file_chooses_the_device(tmp_path):
    loop = script("model = nn.Linear(9, 9)" + textwrap.dedent(LOOP.replace("{x}", "x")))
    entry = "import torch\n\nprint(torch.cuda.is_available())\n"
    (tmp_path / "loop.py").write_text(loop)
    (tmp_path / "train.py").write_text(entry)
    files = [File.read(tmp_path / name) for name in ("loop.py", "train.py")]
    values = {"dtype": "bfloat16"}
    alone, both = Patch({files[0]: loop}), Patch({files[0]: loop, files[1]: entry})
    apply("mixed_precision", values, alone, ())
    apply("mixed_precision", values, both, ())
    assert 'torch.autocast("cpu"' in alone.texts[files[0]]
    assert f"torch.autocast({OF_PARAMETERS}" in both.texts[files[0]]


def test_a_context_under_another_name_is_autocast_already():
    body = """
        ctx = torch.autocast("cuda", dtype=torch.bfloat16)
        model = nn.Linear(9, 9)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in xs:
            with ctx:
                loss = model(x).mean()
            loss.backward()
            opt.step()
        """
    assert said("mixed_precision", body) == []


def test_compile_in_place_where_the_caller_or_a_checkpoint_holds_the_model():
    lines = changed(
        "fused_pointwise",
        """
        class Net(nn.Module):
            pass


        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def save(self):
                torch.save(self.net.state_dict(), "net.pt")


        trainer = Trainer(Net())
        """,
    )
    assert lines == "self.net.compile()"


def test_compile_follows_the_last_optimizer_and_takes_the_mode():
    lines = changed(
        "fused_pointwise",
        """
        net = nn.Linear(9, 9)
        groups = [{"params": net.parameters(), "lr": 0.1}]
        opt = torch.optim.SGD(groups)
        """,
        mode="max-autotune-no-cudagraphs",
    )
    assert lines == 'net = torch.compile(net, mode="max-autotune-no-cudagraphs")'


def test_a_graph_is_not_made_where_outputs_are_kept():
    (note,) = said(
        "cuda_graphs",
        """
        net = nn.Linear(9, 9)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in xs:
            out = net(x)
            seen.append(out)
        """,
    )
    assert "10 an output outlives its step" in note


EVAL_LOOP = """
    model = nn.Linear(9, 9)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        model.train()
        for x in xs:
            loss = model(x).mean()
            loss.backward()
            opt.step()
        model.eval()
        # held-out data
        for x in valid:
            print(model(x))
    """


def test_an_evaluation_loop_beside_training_is_wrapped_with_its_comment():
    after, _ = patched(script(EVAL_LOOP), "no_grad_eval")
    assert "    # held-out data\n    with torch.no_grad():\n        for x in valid:\n" in after
    assert after.count("no_grad") == 1


EVAL_IN_PLACE = """
    model = nn.Linear(9, 9)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        model.train()
        loss = model(xs).square().mean()
        loss.backward()
        opt.step()
        model.eval()
        wrong = model(valid).sum()
        right = model(valid).argmax(1)
        print(wrong.item(), right.tolist())
    """


def test_an_evaluation_at_the_end_of_a_loop_that_trains_is_wrapped_by_its_lines():
    after, _ = patched(script(EVAL_IN_PLACE), "no_grad_eval")
    assert (
        "    with torch.no_grad():\n"
        "        wrong = model(valid).sum()\n"
        "        right = model(valid).argmax(1)\n"
        "    print(" in after
    )


def test_methods_that_follow_one_another_are_decorated_each():
    lines = changed(
        "no_grad_eval",
        """
        class Scores:
            def __init__(self):
                self.model = nn.Linear(9, 9)

            def first(self, x):
                self.model.eval()
                print(self.model(x))

            def second(self, x):
                self.model.eval()
                print(self.model(x))
        """,
    )
    assert lines.split("\n").count("@torch.no_grad()") == 2


def test_an_evaluation_whose_caller_sets_the_mode():
    lines = changed(
        "no_grad_eval",
        """
        def score(net, xs):
            return sum(net(x).item() for x in xs)


        model = nn.Linear(9, 9)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            model.eval()
            print(score(model, xs))
        """,
    )
    assert lines == "@torch.no_grad()"


@pytest.mark.parametrize(
    "body",
    [
        """
        def attack(model, x, y):
            model.eval()
            loss = criterion(model(x), y)
            loss.backward()


        attack(model, x, y)
        """,
        """
        def features(model, x):
            model.eval()
            return model(x)


        loss = features(model, x).mean()
        loss.backward()
        """,
        """
        def stream(model, xs):
            model.eval()
            for x in xs:
                yield model(x)


        print(list(stream(model, xs)))
        """,
        """
        def score(model, xs):
            model.eval()
            return model(xs)
        """,
        """
        model = nn.Linear(9, 9)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        model.eval()
        for x in xs:
            loss = model(x).mean()
            loss.backward()
            opt.step()
        """,
    ],
)
def test_gradients_stay_on_where_they_may_be_used(body):
    said("no_grad_eval", body)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            "def f(rows):\n    a = np.stack(rows)\n    return torch.tensor(a)\n",
            "return torch.as_tensor(a)",
        ),
        ("x = torch.tensor(np.zeros(9))\n", "x = torch.from_numpy(np.zeros(9))"),
        (
            "x = torch.tensor(np.zeros(9, dtype='float32'), dtype=torch.float32)\n",
            "x = torch.as_tensor(np.zeros(9, dtype='float32'), dtype=torch.float32)",
        ),
        (
            "x = torch.tensor([np.zeros(3), np.ones(3)])\n",
            "x = torch.from_numpy(np.stack([np.zeros(3), np.ones(3)]))",
        ),
        (
            "def f(xs):\n    for x in xs:\n        a = x.astype(float)\n        print(torch.tensor(a))\n",
            "print(torch.as_tensor(a))",
        ),
    ],
)
def test_memory_is_shared_where_nobody_else_sees_it(body, line):
    assert changed("no_copy_from_numpy", body) == line


@pytest.mark.parametrize(
    "body",
    [
        "def f(rows):\n    a = np.stack(rows)\n    t = torch.tensor(a)\n    a[:] = 0\n    return t\n",
        "def f(a):\n    return torch.tensor(a)\n",
        "def f(self):\n    return torch.tensor(self.array)\n",
        "def f(rows, keep):\n    a = np.stack(rows)\n    if keep:\n        a = keep\n    return torch.tensor(a)\n",
        "def f(rows):\n    a = np.stack(rows)\n    g = lambda: a.sum()\n    return torch.tensor(a), g\n",
        "x = torch.tensor(np.zeros(9), device='cuda')\n",
        "x = torch.tensor(np.zeros(9), requires_grad=True)\n",
        "x = torch.tensor([1.0, 2.0])\n",
        "x = torch.tensor(array.astype(float, copy=False))\n",
        "a = np.zeros(9)\nx = torch.tensor(a)\n",
        "x = torch.tensor(np.zeros(9), dtype=torch.float32)\n",  # converted: a copy anyway
        "x = torch.tensor(np.stack(rows), dtype=torch.float32)\n",
        "def f(x):\n    a = x.astype(np.int32)\n    return torch.tensor(a, dtype=torch.long)\n",
    ],
)
def test_the_copy_stays_where_somebody_might(body):
    said("no_copy_from_numpy", body)


def test_copies_of_batches_only():
    lines = changed(
        "async_copy",
        """
        loader = DataLoader(data, pin_memory=True)
        model = nn.Linear(9, 9).to(device)
        table = table.to(device)
        for i, batch in enumerate(loader):
            x = batch["x"].to(device)
            y = batch["y"].to(device=device)
            z = batch["z"].to(torch.float32)
            out = model(x).cpu()
        """,
    )
    assert lines.splitlines() == [
        'x = batch["x"].to(device, non_blocking=True)',
        'y = batch["y"].to(device=device, non_blocking=True)',
    ]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            "for x, y in loader:\n    print(x.to(dev), y.to(dev))\n",
            "for x, y in DevicePrefetcher(loader, dev):",
        ),
        (
            "for i, b in enumerate(loader):\n    x, y = b[0].cuda(), b[1].cuda()\n    print(x.sum())\n",
            'for i, b in enumerate(DevicePrefetcher(loader, "cuda")):',
        ),
        (
            "for x in loader:\n    x = x.to(dev)\n    print(x)\n",
            "for x in DevicePrefetcher(loader, dev):",
        ),
    ],
)
def test_loops_that_move_all_of_a_batch_are_prefetched(body, line):
    lines = changed("device_prefetch", "loader = DataLoader(data)\n" + body).splitlines()
    assert lines == ["from hotlap.data import DevicePrefetcher", line]


@pytest.mark.parametrize(
    "body",
    [
        "for x, y in loader:\n    print(x.to(dev), y)\n",
        "for x, y in loader:\n    n = len(y)\n    x, y = x.to(dev), y.to(dev)\n",
        "for x, y in loader:\n    print(x.to(first), y.to(second))\n",
        "for x in loader:\n    dev = choose()\n    print(x.to(dev))\n",
    ],
)
def test_loops_that_work_on_the_cpu_too_are_not(body):
    (note,) = said("device_prefetch", "loader = DataLoader(data)\n" + body)
    assert note.startswith("7 not all of the batch")


def test_a_dataset_that_is_changed_is_not_cached():
    (note,) = said(
        "cached_dataset",
        "data = Images()\nloader = DataLoader(data, shuffle=True)\nfor e in range(9):\n    data.set_epoch(e)\n",
    )
    assert note.startswith("9 the dataset is changed here")


def test_blocks_with_batch_norm_are_not_recomputed():
    body = """
        class Block(nn.Module):
            def __init__(self):
                self.norm = nn.{norm}(9)


        class Net(nn.Module):
            def __init__(self):
                self.blocks = nn.ModuleList([Block() for _ in range(9)])

            def forward(self, x, mask):
                for block in self.blocks:
                    x = block(x, mask=mask)
                return x
        """
    (note,) = said("activation_checkpoint", body.format(norm="BatchNorm1d"))
    assert "statistics would be updated twice" in note
    lines = changed("activation_checkpoint", body.format(norm="LayerNorm"))
    assert "x = checkpoint(block, x, mask=mask, use_reentrant=False)" in lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with torch.autograd.set_detect_anomaly(True):\n    a()\n    b()\n", "a()\nb()\n"),
        ("with lock, torch.autograd.detect_anomaly():\n    a()\n", "with lock:\n    a()\n"),
        ("with torch.autograd.detect_anomaly(), lock:\n    a()\n", "with lock:\n    a()\n"),
        ("def f():\n    torch.autograd.set_detect_anomaly(True)\n", "def f():\n    pass\n"),
        ("if debug:\n    torch.autograd.set_detect_anomaly(True)\n", None),
        ("torch.autograd.set_detect_anomaly(args.debug)\n", None),
    ],
)
def test_anomaly_detection(before, after):
    text, done = patched(script(before), "debug_off")
    assert text == script(before if after is None else after)
    assert bool(done.notes) == (after is None)


def test_channels_last_leaves_inputs_that_may_not_be_images():
    body = """
        class Net(nn.Module):
            def forward(self, x):
                return self.conv(x.reshape(-1, 1, 8, 8))


        net = Net().to(device)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(x)
        """
    after, done = patched(script(body), "channels_last")
    assert "net = Net().to(device).to(memory_format=torch.channels_last)" in after
    assert "out = net(x)" in after
    assert "may take other than images" in done.notes[0].text


def test_an_output_that_is_viewed_keeps_the_default_format():
    (note,) = said(
        "channels_last",
        """
        net = nn.Conv2d(3, 9, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(x)
        flat = out.view(9, -1)
        """,
    )
    assert note.startswith("9 write .reshape()")


def test_a_loader_made_in_every_epoch_gets_no_cache_of_its_own():
    for body in (
        "for epoch in range(3):\n    loader = DataLoader(TensorData(), shuffle=True)\n",
        "def load():\n    return DataLoader(TensorData(), shuffle=True)\n\n\nfor e in range(3):\n    load()\n",
    ):
        (note,) = said("cached_dataset", body)
        assert "made again and again" in note


def test_float16_is_not_written_where_its_scaler_cannot_be():
    body = """
        model = nn.Linear(9, 9)
        opt = torch.optim.LBFGS(model.parameters())


        def closure():
            loss = model(x).mean()
            loss.backward()
            return loss


        for x in xs:
            opt.step(closure)
        """
    (note,) = said("mixed_precision", body, dtype="float16")
    assert "GradScaler" in note
    assert "torch.autocast" in changed("mixed_precision", body, dtype="bfloat16")


def test_channels_last_comes_before_ddp():
    lines = changed(
        "channels_last",
        """
        net = nn.Conv2d(3, 9, 3)
        model = nn.parallel.DistributedDataParallel(net)
        inner = nn.parallel.DistributedDataParallel(nn.Conv2d(3, 9, 3).cuda())
        opt = torch.optim.SGD(inner.parameters(), lr=0.1)
        out = inner(x.cuda())
        """,
    )
    assert lines.splitlines()[0].startswith("inner = nn.parallel.DistributedDataParallel(")
    assert "nn.Conv2d(3, 9, 3).to(memory_format=torch.channels_last).cuda()" in lines
    assert "inner(x.cuda().contiguous(memory_format=torch.channels_last))" in lines


def test_each_script_that_runs_its_main_is_one_that_is_started(tmp_path):
    main = "import torch\n\nif __name__ == '__main__':\n    print(torch.ones(3))\n"
    for name, text in (("one.py", main), ("two.py", main), ("helper.py", "import torch\n")):
        (tmp_path / name).write_text(text)
    files = [File.read(tmp_path / name) for name in ("one.py", "two.py", "helper.py")]
    recipe = Recipe({"cpu_threads": Kept({"threads": 2})})
    changed = patch(recipe, files).texts
    assert ["set_num_threads(2)" in changed[file] for file in files] == [True, True, False]
    alone = patch(recipe, files, files[1:2]).texts
    assert ["set_num_threads(2)" in alone[file] for file in files] == [False, True, False]


def test_what_no_file_has_a_place_for_is_named_where_the_step_is(tmp_path):
    """Not in the script that is started, which only calls the module that trains."""
    started = "from trainer import fit\n\nif __name__ == '__main__':\n    fit(Net())\n"
    trains = (
        "import torch\n\n\n"
        "def fit(models):\n"
        "    optimizers = [torch.optim.SGD(m.parameters()) for m in models]\n"
        "    for x in batches():\n"
        "        models(x).sum().backward()\n"
        "        for optimizer in optimizers:\n"
        "            optimizer.step()\n"
    )
    for name, text in (("main.py", started), ("trainer.py", trains)):
        (tmp_path / name).write_text(text)
    files = [File.read(tmp_path / name) for name in ("main.py", "trainer.py")]
    (note,) = patch(Recipe({"channels_last": Kept({})}), files, files[:1]).notes
    assert note.place.endswith("trainer.py:7")
    assert "it is not certain from this file" in note.text
