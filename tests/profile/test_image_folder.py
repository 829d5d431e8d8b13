"""Scripts that read image files, as a person has them: profiled whole, and tuned."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap

import pytest

from data.images import folder
from hotlap.data import Store

TORCHVISION = """
import os
from PIL import Image

class ImageFolder:
    def __init__(self, root, transform=None):
        self.root, self.transform = root, transform
        self.classes = sorted(os.listdir(root))
        self.samples = [
            (os.path.join(root, name, file), label)
            for label, name in enumerate(self.classes)
            for file in sorted(os.listdir(os.path.join(root, name)))
        ]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with open(path, "rb") as file:
            image = Image.open(file).convert("RGB")
        return (self.transform(image) if self.transform else image), label

ImageFolder.__module__ = "torchvision.datasets.folder"
"""
SCRIPT = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

def transform(image):
    pixels = np.asarray(image.resize((48, 48), 2), np.float32)
    return torch.from_numpy(pixels.transpose(2, 0, 1) / 255)

data = ImageFolder("photos", transform)
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(48 * 48 * 3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(500):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
GROWING = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Names(Dataset):
    def __init__(self):
        self.samples = [(f"images/{number:09d}.jpg", number % 10) for number in range(1_000_000)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        name, label = self.samples[index]
        time.sleep(0.001)
        return torch.full((64,), float(len(name))), label

loader = DataLoader(Names(), batch_size=64, shuffle=True, num_workers=2)
model = nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path):
    package = tmp_path / "site" / "torchvision" / "datasets"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(TORCHVISION)
    folder(tmp_path / "photos", classes=2, each=60, height=220, width=300)
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "growing.py").write_text(textwrap.dedent(GROWING))
    return tmp_path


def hotlap(project, *args):
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *args],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(project / "site")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_image_folder_is_proposed_to_be_packed_and_the_line_works(project):
    found = hotlap(project, "profile", "--json", "--steps", "20", sys.executable, "train.py")
    remedies = {remedy["id"]: remedy for f in found["findings"] for remedy in f["remedies"]}
    packed = remedies["packed_dataset"]
    assert packed["place"] == "train.py:12"
    assert packed["most"] > 1.1
    command, *code = packed["lines"]
    assert command == "hotlap pack photos packed --profile raw --resize 48x48"
    subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=project, check=True, capture_output=True
    )
    assert len(Store(project / "packed")) == 120
    names = {}
    with contextlib.chdir(project):
        exec("\n".join(code), names)
        images, labels = next(iter(names["loader"]))
    assert (tuple(images.shape), labels.shape) == ((16, 3, 48, 48), (16,))
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    left = {path.name for path in project.iterdir()}
    assert left == {"site", "photos", "train.py", "growing.py", "packed", ".hotlap"}
    assert not list((project / ".hotlap" / "scratch").glob("*"))


@pytest.mark.slow
def test_a_tune_proposes_it_too(project):
    found = hotlap(project, "tune", "--json", "--budget", "150s", sys.executable, "train.py")
    kept = {row["technique"] for row in found["outcomes"] if row["status"] == "kept"}
    if not kept:
        (advice,) = found["advice"]
        assert advice["technique"] == "packed_dataset"
        assert advice["lines"][0].startswith("hotlap pack photos packed")


@pytest.mark.slow
def test_workers_that_copy_a_list_are_told(project):
    found = hotlap(project, "profile", "--json", "--budget", "9", "--steps", "9999",
                   sys.executable, "growing.py")  # fmt: skip
    (finding,) = [f for f in found["findings"] if f["remedies"][0]["id"] == "worker_memory"]
    assert "samples is a list of 1,000,000 Python objects" in finding["remedies"][0]["says"]
