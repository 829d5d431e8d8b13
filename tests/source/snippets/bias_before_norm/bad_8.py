from torch import nn

block = nn.Sequential(
    nn.ReflectionPad2d(1),
    nn.Conv2d(64, 64, 3),  # found: bias_before_norm
    nn.InstanceNorm2d(64),
    nn.ReLU(),
    nn.ConvTranspose2d(64, 32, 3),  # found: bias_before_norm
    nn.InstanceNorm2d(32),
)
