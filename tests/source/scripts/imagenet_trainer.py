"""ImageNet training in the manner of the well-known reference script."""

import argparse
import os
import shutil
import time

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim
import torch.utils.data
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser(description="ImageNet training")
parser.add_argument("data", metavar="DIR")
parser.add_argument("-a", "--arch", default="resnet50")
parser.add_argument("-j", "--workers", default=8, type=int)
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--wd", default=1e-4, type=float)
parser.add_argument("--print-freq", default=50, type=int)
parser.add_argument("--save-freq", default=500, type=int)
parser.add_argument("--clip-grad", default=1.0, type=float)
parser.add_argument("--evaluate", action="store_true")
parser.add_argument("--seed", default=None, type=int)
best_acc1 = 0.0


def main():
    global best_acc1
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
    cudnn.deterministic = True
    cudnn.benchmark = True  # found: benchmark_contradiction

    model = models.__dict__[args.arch]()
    model = torch.nn.DataParallel(model).cuda()  # found: data_parallel

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()
    optimizer = torch.optim.SGD(
        model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.wd, fused=True
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    scaler = GradScaler()  # found: deprecated_amp

    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        os.path.join(args.data, "train"),
        transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                normalize,
            ]
        ),
    )
    val_dataset = datasets.ImageFolder(
        os.path.join(args.data, "val"),
        transforms.Compose(
            [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), normalize]
        ),
    )
    common = dict(num_workers=args.workers, pin_memory=True, persistent_workers=True)
    train_loader = DataLoader(train_dataset, args.batch_size, shuffle=True, **common)
    val_loader = DataLoader(val_dataset, args.batch_size, **common)

    if args.evaluate:
        validate(val_loader, model, criterion, args)
        return

    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, scaler, epoch, args)
        acc1 = validate(val_loader, model, criterion, args)
        scheduler.step()
        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
            },
            is_best,
        )


def train(train_loader, model, criterion, optimizer, scaler, epoch, args):
    batch_time = AverageMeter("Time")
    losses = AverageMeter("Loss")
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(train_loader):
        images = images.cuda(non_blocking=True)
        target = target.cuda(non_blocking=True)
        with autocast():  # found: deprecated_amp
            output = model(images)
            loss = criterion(output, target)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)  # found: clip_before_unscale
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.empty_cache()  # found: cache_emptied_in_step

        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            losses.update(loss.item(), images.size(0))
            print(f"Epoch [{epoch}][{i}/{len(train_loader)}] {batch_time} {losses}")
        if i % args.save_freq == 0:
            torch.save(  # found: checkpoint_in_step
                {"epoch": epoch, "step": i, "state_dict": model.state_dict()}, "latest.pth.tar"
            )


def validate(val_loader, model, criterion, args):
    losses = AverageMeter("Loss")
    top1 = AverageMeter("Acc@1")
    model.eval()
    for i, (images, target) in enumerate(val_loader):
        images = images.cuda(non_blocking=True)
        target = target.cuda(non_blocking=True)
        output = model(images)  # found: eval_with_grad
        loss = criterion(output, target)
        acc1, _ = accuracy(output, target, topk=(1, 5))
        if i % args.print_freq == 0:
            losses.update(loss.item(), images.size(0))
            top1.update(acc1.item(), images.size(0))
            print(f"Test [{i}/{len(val_loader)}] {losses} {top1}")
    return top1.avg


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return f"{self.name} {self.val:.4f} ({self.avg:.4f})"


def accuracy(output, target, topk=(1,)):
    maxk = max(topk)
    _, pred = output.topk(maxk, 1, True, True)
    correct = pred.t().eq(target.view(1, -1))
    return [correct[:k].reshape(-1).float().sum(0) * (100.0 / target.size(0)) for k in topk]


if __name__ == "__main__":
    main()
