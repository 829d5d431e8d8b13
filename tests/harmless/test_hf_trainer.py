"""Hugging Face's Trainer with a fast tokenizer, saving at each epoch, tuned in the overlay tier.

The tokenizer writes by Rust. Its file is there before, and the output folder is not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.isolation.tree_diff import changed, tree_hash

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

SCRIPT = """
import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer
from transformers import TrainingArguments, set_seed

set_seed(0)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({str(n): n for n in range(40)}, unk_token="0")),
    pad_token="0", unk_token="0",
)
tokenizer.save_pretrained("existing")
config = GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=1, n_head=2,
                    bos_token_id=0, eos_token_id=0)
rows = [(torch.arange(16) + index) % 40 for index in range(64)]
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=40, per_device_train_batch_size=8, save_strategy="epoch",
    save_total_limit=2, logging_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
)
Trainer(
    model=GPT2LMHeadModel(config), args=arguments, processing_class=tokenizer,
    train_dataset=[{"input_ids": ids, "labels": ids} for ids in rows],
).train()
"""


def test_a_trainer_that_saves_each_epoch_is_tuned(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "existing").mkdir()
    (tmp_path / "existing" / "tokenizer.json").write_text("the user's own")
    before = tree_hash(tmp_path, [".hotlap"])
    command = ["-m", "hotlap", "tune", "--json", "--budget", "40s", "--only", "fused_optimizer"]
    done = subprocess.run(
        [sys.executable, *command, sys.executable, "train.py"], cwd=tmp_path, check=False,
        env=os.environ | {"TOKENIZERS_PARALLELISM": "false"}, timeout=400, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr[-2000:]
    tier = json.loads(done.stdout)["isolation"]["tier"]
    if tier != "overlay":
        pytest.skip(f"the tier here is {tier}")
    written = {"hotlap.toml", "hotlap.unconfirmed.toml"}
    assert set(changed(before, tree_hash(tmp_path, [".hotlap"]))) <= written
