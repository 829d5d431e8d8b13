"""Image classification with a writer: norms of gradients logged at each step."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchvision import models

net = models.resnet18().cuda()
loader = DataLoader(images, shuffle=True, num_workers=4, batch_size=128)  # found: workers_restarted, unpinned_loader
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)  # found: unfused_optimizer
scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[60, 120])
writer = SummaryWriter("runs")


def train(epoch):
    net.train()
    for i, (images, labels) in enumerate(loader):  # found: full_precision_training, uncompiled_model, channels_first_convolutions, untuned_convolutions
        labels = labels.cuda()  # found: pageable_copy
        images = images.cuda()  # found: pageable_copy
        optimizer.zero_grad()
        loss = criterion(net(images), labels)
        loss.backward()
        optimizer.step()
        for name, parameter in list(net.children())[-1].named_parameters():  # found: clipping_loop
            if "weight" in name:
                writer.add_scalar("norm", parameter.grad.norm(), i)  # found: tensor_printed, logging_in_step
        print("Epoch {} loss {:.4f}".format(epoch, loss.item()))  # found: item_in_step


for epoch in range(200):
    train(epoch)
    scheduler.step()
