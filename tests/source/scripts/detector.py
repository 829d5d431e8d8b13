"""Object detection fine-tuning, with the loop of the torchvision references."""

import datetime
import logging
import math
import sys
import time
from collections import defaultdict

import torch
import torch.utils.data as data
import torchvision
from torch.utils.tensorboard import SummaryWriter
from torchvision.models.detection import fasterrcnn_resnet50_fpn

logger = logging.getLogger("detector")


def collate_fn(batch):
    return tuple(zip(*batch))


def build_loaders(cfg, train_set, test_set):
    kwargs = dict(collate_fn=collate_fn, num_workers=cfg.workers)
    train_loader = data.DataLoader(train_set, 4, shuffle=True, pin_memory=True,
                                   persistent_workers=True, **kwargs)
    test_loader = data.DataLoader(test_set, 1, persistent_workers=True, **kwargs)  # found: unpinned_loader
    return train_loader, test_loader


class Trainer:
    def __init__(self, cfg, train_set, test_set):
        self.cfg = cfg
        self.device = torch.device("cuda", cfg.local_rank)
        self.model = fasterrcnn_resnet50_fpn(weights="DEFAULT").to(self.device)
        self.ema = fasterrcnn_resnet50_fpn().to(self.device)
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=5e-4)  # found: unfused_optimizer
        self.lr_scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.1)
        self.train_loader, self.test_loader = build_loaders(cfg, train_set, test_set)
        self.writer = SummaryWriter(cfg.out)
        self.history = defaultdict(list)
        self.epoch_loss = 0.0
        self.step = 0

    def to_device(self, images, targets):
        images = [image.to(self.device) for image in images]  # found: blocking_copy
        targets = [{k: v.to(self.device, non_blocking=True) for k, v in t.items()} for t in targets]
        return images, targets

    def update_ema(self, decay=0.999):
        with torch.no_grad():
            msd = self.model.state_dict()
            for k, v in self.ema.state_dict().items():  # found: ema_loop
                if v.dtype.is_floating_point:
                    v *= decay
                    v += (1 - decay) * msd[k].detach()

    def train_one_epoch(self, epoch):
        self.model.train()
        start = time.time()
        for i, (images, targets) in enumerate(self.train_loader):
            images, targets = self.to_device(images, targets)
            loss_dict = self.model(images, targets)
            losses = sum(loss for loss in loss_dict.values())
            loss_value = losses.item()  # found: item_in_step
            if not math.isfinite(loss_value):
                print(f"Loss is {loss_value}, stopping training")
                sys.exit(1)
            self.optimizer.zero_grad()
            losses.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0, foreach=False)  # found: foreach_off
            self.optimizer.step()
            self.update_ema()
            self.step += 1
            for name, value in loss_dict.items():
                self.history[name].append(value)  # found: graph_kept
                self.writer.add_scalar(f"train/{name}", value, self.step)  # found: tensor_printed, logging_in_step
            self.epoch_loss = self.epoch_loss + losses  # found: graph_summed
            logger.info("step %d loss %s", self.step, losses)  # found: tensor_printed, logging_in_step
            if i % self.cfg.print_freq == 0:
                eta = datetime.timedelta(seconds=int(time.time() - start))
                print(f"[{epoch}][{i}] {eta} lr {self.optimizer.param_groups[0]['lr']:.6f}")

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        results = {}
        for images, targets in self.test_loader:
            images = [image.to(self.device, non_blocking=True) for image in images]
            outputs = self.model(images)
            outputs = [{k: v.cpu() for k, v in t.items()} for t in outputs]
            for target, output in zip(targets, outputs):
                results[target["image_id"].item()] = output["scores"].tolist()
        return results

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.train_one_epoch(epoch)
            self.lr_scheduler.step()
            results = self.evaluate()
            print(f"epoch {epoch}: {len(results)} images, loss {float(self.epoch_loss):.3f}")
            torch.save({"model": self.model.state_dict(), "epoch": epoch}, f"model_{epoch}.pth")


def main(cfg):
    train_set = torchvision.datasets.CocoDetection(cfg.root, cfg.train)
    test_set = torchvision.datasets.CocoDetection(cfg.root, cfg.test)
    Trainer(cfg, train_set, test_set).fit()
