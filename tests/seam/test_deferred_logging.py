"""`deferred_logging`: the same text in the same order, and no number put off that is used."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRAINING = """
import logging, os, subprocess, sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

def steps(count=6):
    for i in range(count):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield i, loss
"""

LATER = {
    "printed": """
for i, loss in steps():
    print(i, loss.item())  # later
    print(f"step {i}: {loss.item():>12.5f} of {i:3d}")  # later
    print("step {}: {:.3e}".format(i, loss.item()), end=" | ", flush=True)  # later
print("done")
""",
    "tensor in an f-string": """
for i, loss in steps():
    print(f"step {i}: {loss:.4f} and {i}")  # later
""",
    "variable": """
for i, loss in steps():
    value = loss.item() * 4  # later
    if i % 2 == 0:
        print(f"iter {i}: loss {value:.4f}, half {value / 2}")
""",
    "sum": """
def epoch():
    running = 0.0
    for i, loss in steps():
        running += loss.item()  # later
        if i % 3 == 2:
            print(f"[{i + 1}] loss: {running / 3:.3f}")
            running = 0.0

for _ in range(3):
    epoch()
""",
    "long sum": """
running = 0.0
for i, loss in steps(300):
    running += loss.item()  # later
print(running)
""",
    "count": """
correct = 0
total = 0
for i, loss in steps():
    total += 8
    correct += (loss < 2).sum().item()  # later
print("accuracy", 100 * correct / total, f"{correct:d}/{total}")
""",
    "logging": """
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(lineno)d %(message)s")
log = logging.getLogger("train")
for i, loss in steps():
    log.info("step %d loss %.5f", i, loss.item())  # later
    logging.warning(f"loss {loss.item():.3f}")  # later
    log.debug("not shown %f", loss.item())  # later
    log.info("plain")
    log.debug(f"not shown {loss.item():.3f}")  # later
""",
    "not shown, often": """
log = logging.getLogger("train")
loss = torch.ones(())
for i in range(1500):
    log.debug(f"not shown {loss.item():.3f}")  # later
    if i % 400 == 0:
        print(f"{loss.item():.3f}", "shown", loss.item())  # later
""",
    "file log": """
logging.basicConfig(filename="train.log", level=logging.INFO, format="%(message)s")
for i, loss in steps():
    logging.info("loss %r", loss.item())  # later
    assert len(open("train.log").readlines()) == i + 1
print(open("train.log").read())
""",
    "handler removed": """
log = logging.getLogger("train")
handler = logging.StreamHandler()
log.addHandler(handler)
log.propagate = False
for i, loss in steps(2):
    log.warning("loss %r", loss.item())  # later
log.removeHandler(handler)
""",
    "other output": """
for i, loss in steps():
    print("a", loss.item())  # later
    sys.stdout.write("b\\n")
    print("c", loss.item(), file=sys.stderr)  # later
    print("d", [i])
    sys.stderr.writelines(["e\\n"])
    print("f")
""",
    "programs": """
for i, loss in steps(3):
    print("a", loss.item(), flush=True)  # later
    subprocess.run(["echo", "b"])
    print("c", loss.item(), flush=True)  # later
    os.system("echo d")
    print("e", loss.item(), flush=True)  # later
    if os.fork() == 0:
        print("f", flush=True)
        os._exit(0)
    os.wait()
""",
    "question": """
for i, loss in steps(2):
    print("a", loss.item())  # later
    print(input("more? "))
""",
    "error": """
for i, loss in steps():
    print("a", loss.item())  # later
    if i == 2:
        raise SystemExit("it ends")
""",
    "memory used again": """
value = torch.ones(())
for i in range(4):
    print(value.item())  # later
    value.mul_(2)
""",
    "integers": """
for i in range(3):
    n, yes = torch.tensor(i), torch.tensor(i > 1)
    print(n.item(), yes.item(), n.item() / 2)  # later
""",
    "scripts that read variables by name first": """
config = [k for k in globals() if k == "model"]
exec("count = 4")
for i, loss in steps(count):
    lossf = loss.item()  # later
    print(f"{lossf:.4f}", config)
""",
}

NOW = {
    "compared": "if loss.item() > 1: print(loss.shape)",
    "variable compared": "x = loss.item()\n    print(x)\n    if x > 1: break",
    "returned": "def f(t):\n        x = t.item()\n        print(x)\n        return x\n    f(loss)",
    "kept": "kept = [loss.item()]\n    print(kept)",
    "another call": "print(round(loss.item(), 3))",
    "a print of one's own": "print = lambda x: x + 1\n    print(loss.item())",
    "a logger of one's own": "class L:\n        def info(self, x): x.hex()\n"
    "    log = L()\n    log.info(loss.item())",
    "closure": "x = loss.item()\n    (lambda: print(x + 1))()\n    print(x)",
    "by name": "def f(t):\n        x = t.item()\n        print(x, locals()['x'].hex())\n"
    "    f(loss)",
    "attribute": "model.last = loss.item()\n    print(model.last)",
    "a width that varies": "print(f'{loss.item():{i + 8}.3f}')",
    "formatted twice": "print(f'{f\"{loss.item():.1f}\":>20}')",
    "conversion": "print(f'{loss.item()!r:>20}', '{!s:>20}'.format(loss.item()))",
    "text around": "text = f'{loss.item():.3f}'\n    print(len(text), text)",
    "by way of another": "a = loss.item()\n    b = a\n    a = b\n    print(b)\n    assert a.hex()",
    "arguments by star": "print(*(loss.item(), 1))",
    "global": "def f(t):\n        global x\n        x = t.item()\n        print(x)\n    f(loss)\n"
    "    assert x.hex()",
    "several numbers": "print(torch.ones(1, 1).item().hex())",
}


SOURCES = LATER | {name: f"\nfor i, loss in steps(3):\n    {body}\n" for name, body in NOW.items()}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Each script's output as it is and with the technique, and the lines that were put off."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "deferred"
    with Path(f"{root}.lock").open("w") as lock:  # one of pytest's workers runs them for all
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "jobs").exists():
            run_scripts(root)
    found = {}
    for at, name in enumerate(SOURCES):
        outputs = [(root / f"{at}-{way}" / "output").read_text() for way in ("is", "later")]
        notes = json.loads((root / f"{at}.held").read_text())
        found[name] = *outputs, {int(place.rpartition(":")[2]) for place in notes}
    return found


def run_scripts(root):
    root.mkdir(exist_ok=True)
    jobs = []
    for at, source in enumerate(SOURCES.values()):
        script = root / f"{at}.py"
        script.write_text(TRAINING + source)
        for name, held in (("is", None), ("later", str(root / f"{at}.held"))):
            (root / f"{at}-{name}").mkdir(exist_ok=True)
            jobs.append((str(script), str(root / f"{at}-{name}"), held))
    (root / "to-run").write_text(json.dumps(jobs))
    subprocess.run([sys.executable, str(HERE / "deferring.py"), str(root / "to-run")], check=True)
    (root / "to-run").rename(root / "jobs")


@pytest.mark.parametrize("name", LATER)
def test_the_same_text_in_the_same_order(name, ran):
    plain, later, held = ran[name]
    assert plain
    assert later == plain
    lines = (TRAINING + LATER[name]).splitlines()
    assert held == {at for at, line in enumerate(lines, 1) if line.endswith("# later")}


@pytest.mark.parametrize("name", NOW)
def test_what_the_program_uses_is_read_at_once(name, ran):
    plain, later, held = ran[name]
    assert later == plain
    assert held == set()
