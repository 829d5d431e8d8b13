"""Fine-tune BERT on SST-2 with gradient accumulation and 16 bits."""

import argparse
import logging
from pathlib import Path

import torch
from datasets import load_dataset
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)

logger = logging.getLogger(__name__)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-name", default="bert-base-uncased")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulation-steps", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--warmup", type=float, default=0.06)
    parser.add_argument("--output-dir", type=Path, default=Path("out"))
    return parser.parse_args()


def build_loaders(args, tokenizer):
    raw = load_dataset("glue", "sst2")

    def encode(batch):
        return tokenizer(batch["sentence"], truncation=True, max_length=args.max_length)

    encoded = raw.map(encode, batched=True, remove_columns=["sentence", "idx"])
    encoded = encoded.rename_column("label", "labels")
    collate = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)
    kwargs = {
        "batch_size": args.batch_size,
        "collate_fn": collate,
        "num_workers": 4,
        "pin_memory": True,
        "persistent_workers": True,
    }
    train = DataLoader(encoded["train"], shuffle=True, **kwargs)
    dev = DataLoader(encoded["validation"], **kwargs)
    return train, dev


def grouped_parameters(model, weight_decay=0.01):
    no_decay = ("bias", "LayerNorm.weight")
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        (plain if any(part in name for part in no_decay) else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]


def train_epoch(model, loader, optimizer, scheduler, scaler, device, args):
    model.train()
    optimizer.zero_grad(set_to_none=True)
    for step, batch in enumerate(loader):
        model.to(device)  # found: model_moved_in_step
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        with torch.autocast("cuda", dtype=torch.float16):
            outputs = model(**batch)
            loss = outputs.loss
            scaler.scale(loss).backward()  # found: autocast_around_backward, undivided_accumulation
        if (step + 1) % args.accumulation_steps == 0:  # found: dropped_last_group
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()  # found: step_around_scaler
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            logger.info("step %d loss %.4f", step, loss.item())


@torch.no_grad()
def evaluate(model, loader, device):
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    for batch in loader:
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        logits = model(**batch).logits  # found: eval_mode_missing
        correct += (logits.argmax(-1) == batch["labels"]).sum()
        total += batch["labels"].size(0)
    return (correct / total).item()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.autograd.set_detect_anomaly(True)  # found: anomaly_on
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    train_loader, dev_loader = build_loaders(args, tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained(args.model_name, num_labels=2)
    model.to(device)
    optimizer = AdamW(grouped_parameters(model), lr=args.lr, fused=True)
    total_steps = len(train_loader) // args.accumulation_steps * args.epochs
    scheduler = get_linear_schedule_with_warmup(
        optimizer, int(args.warmup * total_steps), total_steps
    )
    scaler = torch.amp.GradScaler("cuda")
    best = 0.0
    for epoch in range(args.epochs):
        train_epoch(model, train_loader, optimizer, scheduler, scaler, device, args)
        accuracy = evaluate(model, dev_loader, device)
        logger.info("epoch %d accuracy %.4f", epoch, accuracy)
        if accuracy > best:
            best = accuracy
            model.save_pretrained(args.output_dir)
            tokenizer.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
