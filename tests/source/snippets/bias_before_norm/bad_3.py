from torch import nn


class Generator(nn.Module):
    def __init__(self, z=100):
        super().__init__()

        def block(inputs, outputs, normalize=True):
            layers = [nn.Linear(inputs, outputs)]  # found: bias_before_norm
            if normalize:
                layers.append(nn.BatchNorm1d(outputs, 0.8))
            return layers

        self.model = nn.Sequential(*block(z, 128, normalize=False), *block(128, 256), nn.Tanh())


def stack(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers.append(nn.Conv2d(a, b, 3, padding=1))  # found: bias_before_norm
        layers.append(nn.BatchNorm2d(b))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)
