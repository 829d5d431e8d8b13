"""How far outside each wrapper of a root's call lies: the lowest is outermost."""

from enum import IntEnum


class Order(IntEnum):
    """The one table of orders. What observes lies outside (0, in `modes`)."""

    GRAD_MODE = 10
    INPUTS = 20
    AUTOCAST = 30
    CHANNELS_LAST = 40
    COMPILE = 50
    BLOCKS = 60
    GRADIENTS = 70
