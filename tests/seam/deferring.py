"""Run scripts as they are and with `deferred_logging`, as on a device that is always behind.

The first argument is a file with the jobs: script, folder to run in, and where to write the lines
whose reads were put off, or null to run the script as it is. What a script prints goes to the file
`output` in its folder.
"""

import atexit
import gc
import json
import os
import runpy
import sys
from contextlib import ExitStack
from pathlib import Path

import torch
from applying import on

from hotlap.seam import deferred_logging as seam


def begun(tensor, output):
    """A number that is there when somebody waits for it."""
    host = tensor.detach().clone()
    like = torch.ones((), dtype=tensor.dtype).item()
    return seam.Later(output, like, lambda: False, host.item)


def run(script, folder, held):
    os.chdir(folder)
    (Path(folder) / "input").write_text("yes\nno\n")
    os.dup2(os.open("input", os.O_RDONLY), 0)
    os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    sys.argv = [script]
    if held:
        seam.begun, seam.on_device = begun, lambda _: True
        seams = stack.enter_context(on("deferred_logging"))
        atexit.register(
            lambda: Path(held).write_text(json.dumps(seams.holds.get("deferred_logging", [])))
        )
    runpy.run_path(script, run_name="__main__")


torch.set_num_threads(1)  # a fork has no other threads
with on("deferred_logging"):  # imports what the scripts need
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
stack = ExitStack()
gc.collect()
gc.freeze()  # a fork that collects would copy every page of torch's modules
for script, folder, held in json.loads(Path(sys.argv[1]).read_text()):
    if os.fork() == 0:
        run(script, folder, held)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)  # taking torch down takes a second
    os.wait()
