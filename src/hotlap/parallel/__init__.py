"""Training over several devices and machines, on torch.distributed."""
