"""Ways in which training scripts import torch, start processes and make steps.

Each idiom is a command and the files that it needs beside TRAIN, which trains a small model for
STEPS steps and prints a line. `needs` names packages without which the idiom is left out.
"""

from dataclasses import dataclass, field
from textwrap import dedent

STEPS = 40

TRAIN = f"""
import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(32, 8)
    for _ in range({STEPS}):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    print(f"trained to {{loss.item():.6f}}")


if __name__ == "__main__":
    main()
"""

LAZY = """
import importlib, importlib.metadata, importlib.util, sys, types

FOUND = importlib.util.find_spec("torch") is not None
VERSION = importlib.metadata.version("torch") if FOUND else None


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name == "Model" and FOUND:
            return importlib.import_module(".modeling", self.__name__).Model
        raise AttributeError(name)


lazy = Lazy(__name__)
lazy.__path__, lazy.__spec__, lazy.__file__ = __path__, __spec__, __file__
sys.modules[__name__] = lazy
"""
"""What transformers does when it is imported."""

HOOK = """
import importlib.util, sys, threading


class Loader:
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)


class Finder:
    busy = threading.local()

    def find_spec(self, name, path, target=None):
        if name not in ("torch", "numpy") or getattr(self.busy, "on", False):
            return None
        self.busy.on = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.on = False
        if spec is not None:
            spec.loader = Loader(spec.loader)
        return spec


sys.meta_path.insert(0, Finder())
"""
"""What a tracing package does to see imports."""


@dataclass(frozen=True)
class Idiom:
    """A command, the files that it needs, the packages without which it is left out."""

    script: str = ""
    command: tuple[str, ...] = ("python", "script.py")
    files: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def first(lines: str, *needs: str, **files: str) -> Idiom:
    """These lines, then the training."""
    named = {name.replace("__in__", "/") + ".py": text for name, text in files.items()}
    return Idiom(f"{lines}\nimport train\ntrain.main()\n", files=named, needs=needs)


def loop(body: str, before: str = "", after: str = "") -> Idiom:
    """A script whose loop is written out."""
    return Idiom(
        dedent(before)
        + "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        + "inputs = torch.randn(32, 8)\n"
        + dedent(body)
        + dedent(after or "\nprint(f'trained to {loss.item():.6f}')\n")
    )


IDIOMS = {
    "torch first": first("import torch"),
    "submodule first": first("import torch.utils.data as data"),
    "from torch": first("from torch import nn, optim, tensor"),
    "numpy first": first("import numpy as np\nnp.random.seed(0)"),
    "transformers first": first("from transformers import AutoConfig", "transformers"),
    "datasets first": first("from datasets import Dataset", "datasets"),
    "evaluate first": first("import evaluate", "evaluate"),
    "trl first": first("from trl import SFTConfig", "trl", "transformers"),
    "accelerate first": first("from accelerate import Accelerator", "accelerate"),
    "ignite first": first("from ignite.engine import Engine", "ignite"),
    "lightning first": first("import lightning as L", "lightning"),
    "tensorboard first": first("from torch.utils.tensorboard import SummaryWriter", "tensorboard"),
    "looked up many times": first(
        "import importlib.util as u\n"
        "assert all(u.find_spec('torch') for _ in range(5))\nassert u.find_spec('torch.nn')"
    ),
    "looked up, then lazily imported": first(
        "from hub import Model", hub__in____init__=LAZY,
        hub__in__modeling="import torch\nclass Model(torch.nn.Module): pass\n",
    ),
    "registry that imports models when asked": first(
        "import zoo\nzoo.create('linear')",
        zoo__in____init__=(
            "import importlib, pkgutil\n"
            "def create(name):\n    return importlib.import_module(f'zoo.{name}').build()\n"
        ),
        zoo__in__linear="from torch import nn\ndef build():\n    return nn.Linear(2, 2)\n",
    ),
    "behind another import hook": first("import hook", hook=HOOK),
    "a module of the user's reloaded": first(
        "import importlib, settings\nimportlib.reload(settings)",
        settings="import torch\nLR = 0.1\n",
    ),
    "loaded lazily": first(
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('torch')\nspec.loader = u.LazyLoader(spec.loader)\n"
        "sys.modules['torch'] = module = u.module_from_spec(spec)\nspec.loader.exec_module(module)"
    ),
    "imported by C": first(
        "import ctypes\nload = ctypes.pythonapi.PyImport_ImportModule\n"
        "load.restype = ctypes.py_object\nload(b'torch')"
    ),
    "distributed optimizers, which are scripted": first("import torch.distributed.optim"),
    "from a zip file": first(
        "import sys, zipfile\n"
        "with zipfile.ZipFile('packed.zip', 'w') as file:\n"
        "    file.write('train.py', 'packed.py')\n"
        "sys.path.insert(0, 'packed.zip')\nimport packed\nassert 'zip' in packed.__file__"
    ),
    "runpy": Idiom("import runpy\nrunpy.run_path('train.py', run_name='__main__')\n"),
    "python -m": Idiom(command=("python", "-m", "train")),
    "python -c": Idiom(command=("python", "-c", "import train; train.main()")),
    "a shell script": Idiom(
        command=("sh", "train.sh"),
        files={"train.sh": "export PYTHONUNBUFFERED=1\npython train.py\n"},
    ),
    "a second interpreter": Idiom(
        "import subprocess, sys\n"
        "raise SystemExit(subprocess.run([sys.executable, 'train.py']).returncode)\n"
    ),
    "exec": Idiom("import os, sys\nos.execv(sys.executable, [sys.executable, 'train.py'])\n"),
    "an interactive console": Idiom(
        "import code\ncode.InteractiveInterpreter({'__name__': '__main__'}).runsource("
        "open('train.py').read(), 'train.py', 'exec')\n"
    ),
    "spawn": Idiom(
        "import multiprocessing as mp, train\nif __name__ == '__main__':\n"
        "    child = mp.get_context('spawn').Process(target=train.main)\n"
        "    child.start(); child.join(); raise SystemExit(child.exitcode)\n"
    ),
    "forkserver": Idiom(
        "import multiprocessing as mp, train\nif __name__ == '__main__':\n"
        "    child = mp.get_context('forkserver').Process(target=train.main)\n"
        "    child.start(); child.join(); raise SystemExit(child.exitcode)\n"
    ),
    "fork": Idiom(
        "import multiprocessing as mp, train\nif __name__ == '__main__':\n"
        "    child = mp.get_context('fork').Process(target=train.main)\n"
        "    child.start(); child.join(); raise SystemExit(child.exitcode)\n"
    ),
    "a pool of processes": Idiom(
        "import concurrent.futures, train\nif __name__ == '__main__':\n"
        "    with concurrent.futures.ProcessPoolExecutor(1) as pool:\n"
        "        pool.submit(train.main).result()\n"
    ),
    "ranks that torch starts by fork": Idiom(
        "import train, torch.multiprocessing as mp\n"
        "def rank(number):\n    train.main()\n"
        "if __name__ == '__main__':\n    mp.start_processes(rank, nprocs=1, start_method='fork')\n"
    ),
    "torchrun": Idiom(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\ntorch.manual_seed(0)\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nx = torch.randn(32, 8)\n"
        f"for _ in range({STEPS}):\n"
        "    optimizer.zero_grad(); model(x).square().mean().backward(); optimizer.step()\n"
        "if dist.get_rank() == 0:\n    print('trained')\ndist.destroy_process_group()\n",
        command=(
            "torchrun", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", "script.py",
        ),
    ),
    "a thread": Idiom(
        "import threading, train\nthread = threading.Thread(target=train.main)\n"
        "thread.start(); thread.join()\n"
    ),
    "asyncio": Idiom(
        "import asyncio, train\nasync def go():\n"
        "    await asyncio.to_thread(train.main)\nasyncio.run(go())\n"
    ),
    "torch.package": loop(
        f"""
        from torch.package import PackageExporter, PackageImporter
        import shapes
        with PackageExporter("model.pt") as file:
            file.intern("shapes"); file.extern("**")
            file.save_pickle("model", "model.pkl", shapes.Net())
        model = PackageImporter("model.pt").load_pickle("model", "model.pkl")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "jit.script": loop(
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 2)
            def forward(self, x):
                return self.inner(x) * torch.tensor(1.0)
        plain = Net()
        plain(inputs)
        model = torch.jit.script(plain)
        traced = torch.jit.trace(plain, inputs)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "compiled without graph breaks": loop(
        f"""
        model = nn.Linear(8, 2)
        @torch.compile(backend="eager", fullgraph=True)
        def forward(x):
            return model(x.to(torch.float32)) + torch.tensor([0.0, 1.0])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = forward(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "traced by fx": loop(
        f"""
        model = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 2), nn.ReLU()))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "copies, pickles and an average of the model": loop(
        f"""
        import copy, io, pickle
        model = nn.Linear(8, 2)
        ema = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
            for a, b in zip(ema.parameters(), model.parameters()):
                a.data.lerp_(b.data, 0.1)
            model = model if _ != 10 else pickle.loads(pickle.dumps(model))
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01) if _ == 10 else optimizer
        torch.save(model.state_dict(), io.BytesIO())
        pickle.dumps(torch.save), copy.deepcopy(ema)
        """
    ),
    "updates by p.data.add_": loop(
        f"""
        model = nn.Linear(8, 2)
        for _ in range({STEPS}):
            model.zero_grad(); loss = model(inputs).square().mean(); loss.backward()
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.1)
        """
    ),
    "updates without a module": loop(
        f"""
        w = torch.randn(8, 2, requires_grad=True)
        for _ in range({STEPS}):
            loss = (inputs @ w).square().mean(); loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        """
    ),
    "updates by autograd.grad": loop(
        f"""
        w = torch.randn(8, 2, requires_grad=True)
        for _ in range({STEPS}):
            loss = (inputs @ w).square().mean()
            (g,) = torch.autograd.grad(loss, [w])
            w = (w - 0.1 * g).detach().requires_grad_()
        """
    ),
    "an optimizer of its own": loop(
        f"""
        class Descent:
            def __init__(self, parameters):
                self.parameters = list(parameters)
            def step(self):
                with torch.no_grad():
                    for p in self.parameters:
                        p.sub_(p.grad, alpha=0.1); p.grad = None
        model = nn.Linear(8, 2)
        optimizer = Descent(model.parameters())
        for _ in range({STEPS}):
            loss = model(inputs).square().mean(); loss.backward(); optimizer.step()
        """
    ),
    "gradients before the optimizer is made": loop(
        f"""
        model = nn.Linear(8, 2)
        for _ in range(3):
            model(inputs).sum().backward()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "a closure": loop(
        f"""
        model = nn.Linear(8, 2)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=2)
        def closure():
            optimizer.zero_grad(); loss = model(inputs).square().mean(); loss.backward()
            return loss
        for _ in range({STEPS}):
            loss = optimizer.step(closure)
        """
    ),
    "all of the training in one call of L-BFGS": loop(
        f"""
        model = nn.Linear(8, 2)
        optimizer = torch.optim.LBFGS(
            model.parameters(), lr=1e-3, max_iter={STEPS}, tolerance_grad=0, tolerance_change=0
        )
        losses = []
        def closure():
            optimizer.zero_grad(); loss = model(inputs).square().mean(); loss.backward()
            losses.append(loss.item())
            return loss
        optimizer.step(closure)
        loss = torch.tensor(losses).sum()
        """
    ),
    "two optimizers": loop(
        f"""
        a, b = nn.Linear(8, 8), nn.Linear(8, 2)
        one = torch.optim.SGD(a.parameters(), lr=0.1)
        two = torch.optim.SGD(b.parameters(), lr=0.1)
        for _ in range({STEPS}):
            one.zero_grad(); a(inputs).square().mean().backward(); one.step()
            two.zero_grad(); loss = b(a(inputs).detach()).square().mean()
            loss.backward(); two.step()
        """
    ),
    "a loader with spawned workers": Idiom(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "if __name__ == '__main__':\n"
        "    torch.manual_seed(0)\n    model = torch.nn.Linear(8, 2)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    data = DataLoader(TensorDataset(torch.randn(160, 8)), 4, num_workers=1,\n"
        "                      multiprocessing_context='spawn')\n"
        "    for (x,) in data:\n"
        "        optimizer.zero_grad(); loss = model(x).square().mean()\n"
        "        loss.backward(); optimizer.step()\n"
        "    print(f'trained to {loss.item():.6f}')\n"
    ),
    "DataParallel": loop(
        f"""
        model = nn.DataParallel(nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range({STEPS}):
            optimizer.zero_grad(); loss = model(inputs).square().mean()
            loss.backward(); optimizer.step()
        """
    ),
    "an exit code of its own": Idiom("import train, sys\ntrain.main()\nsys.exit(7)\n"),
}  # fmt: skip

SHAPES = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.inner(x)
"""
