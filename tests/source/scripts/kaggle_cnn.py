# %% [code]
import json
import os
import random

import albumentations as A
import cv2
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from albumentations.pytorch import ToTensorV2
from PIL import Image
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold
from torch.utils.data import DataLoader, Dataset
from torchvision import models
from tqdm.notebook import tqdm

# %% [code]
class CFG:
    seed = 42
    img_size = 384
    batch_size = 32
    epochs = 10
    lr = 1e-4
    weight_decay = 1e-6
    n_fold = 5
    num_classes = 5
    device = torch.device("cuda")


def seed_everything(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


seed_everything(CFG.seed)
train_df = pd.read_csv("../input/cassava/train.csv")

# %% [code]
class LeafDataset(Dataset):
    def __init__(self, df, root, transform=None):
        self.paths = df["image_id"].values
        self.labels = df["label"].values
        self.root = root
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        path = os.path.join(self.root, self.paths[idx])
        with open(path.replace(".jpg", ".json")) as f:
            meta = json.load(f)  # found: heavy_getitem
        image = np.array(Image.open(path).convert("RGB"))
        image = cv2.resize(image, (CFG.img_size, CFG.img_size))
        if self.transform:
            image = self.transform(image=image)["image"]
        label = torch.tensor(self.labels[idx]).long()  # found: array_copied
        return image, label, meta["weight"]


def get_transforms(train):
    if train:
        return A.Compose([A.HorizontalFlip(p=0.5), A.Normalize(), ToTensorV2()])
    return A.Compose([A.Normalize(), ToTensorV2()])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = models.resnet50(weights="DEFAULT")
        self.backbone.fc = nn.Linear(2048, CFG.num_classes)

    def forward(self, x):
        return self.backbone(x)


# %% [code]
def train_fn(loader, model, criterion, optimizer, scaler, device):
    model.train()
    running_loss = 0
    preds = []
    pbar = tqdm(enumerate(loader), total=len(loader))
    for step, (images, labels, weight) in pbar:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            y_preds = model(images)
            loss = criterion(y_preds, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        running_loss += loss.item() * images.size(0)  # found: item_in_step
        preds.append(y_preds.softmax(1).detach().cpu().numpy())  # found: cpu_in_step
        pbar.set_postfix(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])  # found: item_in_step
    return running_loss / len(loader.dataset)


@torch.no_grad()
def valid_fn(loader, model, device):
    model.eval()
    preds, targets = [], []
    for images, labels, _ in tqdm(loader):
        images = images.to(device, non_blocking=True)
        preds.append(model(images).argmax(1).cpu().numpy())
        targets.append(labels.numpy())
    return accuracy_score(np.concatenate(targets), np.concatenate(preds))


# %% [code]
def run(fold, df):
    train_ds = LeafDataset(df[df.fold != fold], "../input/train", get_transforms(True))
    valid_ds = LeafDataset(df[df.fold == fold], "../input/train", get_transforms(False))
    loader_args = {"batch_size": CFG.batch_size, "pin_memory": True}
    train_loader = DataLoader(train_ds, shuffle=True, **loader_args)  # found: serial_loader
    valid_loader = DataLoader(valid_ds, num_workers=4, **loader_args)  # found: workers_restarted
    model = Net().to(CFG.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=CFG.lr, weight_decay=CFG.weight_decay)  # found: adam_with_decay, unfused_optimizer
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss().to(CFG.device)
    best = 0.0
    for epoch in range(CFG.epochs):
        loss = train_fn(train_loader, model, criterion, optimizer, scaler, CFG.device)
        score = valid_fn(valid_loader, model, CFG.device)
        print(f"fold {fold} epoch {epoch} loss {loss:.4f} acc {score:.4f}")
        if score > best:
            best = score
            torch.save(model.state_dict(), f"fold{fold}_best.pth")


# %% [code]
folds = StratifiedKFold(n_splits=CFG.n_fold, shuffle=True, random_state=CFG.seed)
for n, (_, val_index) in enumerate(folds.split(train_df, train_df["label"])):
    train_df.loc[val_index, "fold"] = n
for fold in range(CFG.n_fold):
    run(fold, train_df)
