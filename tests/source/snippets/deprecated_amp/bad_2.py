from torch.cuda import amp
from torch.cuda.amp import custom_bwd, custom_fwd
import torch


class Square(torch.autograd.Function):
    @staticmethod
    @custom_fwd  # found: deprecated_amp
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @custom_bwd  # found: deprecated_amp
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


@amp.autocast()  # found: deprecated_amp
def loss(model, x):
    return model(x).sum()
