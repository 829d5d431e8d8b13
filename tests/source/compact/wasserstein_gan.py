"""A GAN with legacy tensor types: noise by NumPy, batches by `.type(Tensor)`."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torchvision import datasets
from torchvision.utils import save_image

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--latent_dim", type=int, default=100)
opt = parser.parse_args()
cuda = torch.cuda.is_available()


def block(inputs, outputs, normalize=True):
    layers = [nn.Linear(inputs, outputs)]  # found: odd_dimension, bias_before_norm
    if normalize:
        layers.append(nn.BatchNorm1d(outputs, 0.8))
    layers.append(nn.LeakyReLU(0.2, inplace=True))
    return layers


generator = nn.Sequential(*block(opt.latent_dim, 128, normalize=False), *block(128, 256), nn.Tanh())
critic = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
if cuda:
    generator.cuda()
    critic.cuda()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
loader = torch.utils.data.DataLoader(datasets.MNIST("data"), batch_size=opt.batch_size, shuffle=True)  # found: serial_loader, unpinned_loader
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4)  # found: unfused_optimizer
optimizer_c = torch.optim.Adam(critic.parameters(), lr=2e-4)  # found: unfused_optimizer


def sample_images(step):
    z = Variable(Tensor(np.random.normal(0, 1, (25, opt.latent_dim))))
    fake = generator(z)  # found: eval_with_grad
    save_image(fake.data, f"images/{step}.png")


for i, (images, _) in enumerate(loader):  # found: full_precision_training, uncompiled_model, constant_learning_rate
    real = Variable(images.type(Tensor))  # found: pageable_copy
    z = Variable(Tensor(np.random.normal(0, 1, (images.shape[0], opt.latent_dim))))
    optimizer_c.zero_grad()
    loss = critic(generator(z).detach()).mean() - critic(real).mean()
    loss.backward()
    optimizer_c.step()
    optimizer_g.zero_grad()
    worth = -critic(generator(z)).mean()
    worth.backward()
    optimizer_g.step()
    print(i, loss.item(), worth.item())  # found: item_in_step
    if i % 400 == 0:
        sample_images(i)
