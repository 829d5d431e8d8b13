"""Captions of images: a frozen encoder, an LSTM, text tokenised for each sample."""

import argparse
import os

import nltk
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Captions(Dataset):
    def __init__(self, root, rows, vocabulary, transform):
        self.root, self.rows = root, rows
        self.vocabulary, self.transform = vocabulary, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        path, caption = self.rows[i]
        image = Image.open(os.path.join(self.root, path)).convert("RGB")  # found: heavy_getitem
        tokens = nltk.tokenize.word_tokenize(caption.lower())
        words = [self.vocabulary[token] for token in tokens]
        return self.transform(image), torch.Tensor(words)  # found: tensor_of_lists


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        resnet = models.resnet152(weights="DEFAULT")
        self.resnet = nn.Sequential(*list(resnet.children())[:-1])
        self.linear = nn.Linear(2048, width)  # found: bias_before_norm
        self.bn = nn.BatchNorm1d(width)

    def forward(self, images):
        with torch.no_grad():
            features = self.resnet(images).flatten(1)
        features = self.bn(self.linear(features))
        return features


parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int, default=2)
args = parser.parse_args()
encoder, decoder = Encoder(256).to(device), nn.LSTM(256, 512, batch_first=True).to(device)
loader = DataLoader(Captions("images", rows, vocabulary, transform), 128, num_workers=args.num_workers)  # found: workers_restarted, unpinned_loader
parameters = list(decoder.parameters()) + list(encoder.linear.parameters())
optimizer = torch.optim.Adam(parameters, lr=1e-3)  # found: unfused_optimizer
for i, (images, captions) in enumerate(loader):  # found: full_precision_training, uncompiled_model, constant_learning_rate, channels_first_convolutions, untuned_convolutions, unclipped_gradients
    images = images.to(device)  # found: pageable_copy
    outputs, _ = decoder(encoder(images).unsqueeze(1))
    loss = outputs.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 10 == 0:
        print(loss.item())
