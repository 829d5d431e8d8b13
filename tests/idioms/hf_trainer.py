"""Hugging Face's Trainer on a model built from a config."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Counting(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = (torch.arange(16) + index) % 40
        return {"input_ids": ids, "labels": ids}


def main():
    set_seed(0)
    config = GPT2Config(
        vocab_size=40,
        n_positions=16,
        n_embd=32,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=12,
            per_device_train_batch_size=8,
            learning_rate=1e-3,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Counting())
        trainer.remove_callback(PrinterCallback)  # it prints the run time
        result = trainer.train()
    print(f"steps {result.global_step} loss {result.training_loss:.5f}")


if __name__ == "__main__":
    main()
