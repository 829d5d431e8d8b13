import argparse

from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--latent", type=int, default=96)
opt = parser.parse_args()


def block(inputs, outputs):
    return [nn.Linear(inputs, outputs), nn.ReLU()]


model = nn.Sequential(*block(int(opt.latent), 128), *block(128, 256))
