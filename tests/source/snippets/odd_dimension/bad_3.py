import argparse

from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--latent", type=int, default=100)
opt = parser.parse_args()
latent = int(opt.latent)


def block(inputs, outputs):
    return [nn.Linear(inputs, outputs), nn.ReLU()]  # found: odd_dimension


first = nn.ConvTranspose2d(latent, 512, 4)  # found: odd_dimension
model = nn.Sequential(*block(opt.latent, 128), *block(128, 256))
