"""hotlap: put your PyTorch training on the clock."""

__version__ = "0.1.0"
