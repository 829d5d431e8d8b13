from torch import nn


def conv_bn(inputs, outputs, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1),  # found: bias_before_norm
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )
