"""The callbacks of trainers write a profile of a window of a real run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.integrations.trainers import huggingface_callback, lightning_callback


def check(path: Path) -> None:
    document = json.loads(path.read_text())
    assert document["verb"] == "profile"
    assert 10 <= document["steps"] <= 40
    assert {"forward", "backward", "optimizer"} <= {p["name"] for p in document["phases"]}


def test_hugging_face(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 2)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            logits = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    rows = [{"x": torch.randn(8), "labels": i % 2} for i in range(128)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=50, per_device_train_batch_size=4,
        report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model=Model(), args=arguments, train_dataset=rows)
    trainer.add_callback(huggingface_callback(tmp_path / "new" / "p.json", skip=5, steps=40))
    trainer.train()
    check(tmp_path / "new" / "p.json")
    assert "a step" in capsys.readouterr().err


def test_lightning_and_a_training_that_ends_in_the_window(tmp_path: Path) -> None:
    import lightning.pytorch as pl

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 2)

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            return torch.nn.functional.cross_entropy(self.layer(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = TensorDataset(torch.randn(128, 8), torch.randint(0, 2, (128,)))
    callback = lightning_callback(tmp_path / "p.json", skip=0, steps=1000, show=False)
    trainer = pl.Trainer(
        max_steps=30, accelerator="cpu", callbacks=[callback], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(data, batch_size=4))
    check(tmp_path / "p.json")
