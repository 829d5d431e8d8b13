"""Batched transforms with torchvision's names and semantics, seeded by (seed, epoch, sample).

They work on uint8 or float batches (samples, channels, height, width), wherever these lie. In a
`Loader` over encoded images the geometry (`Resize`, `CenterCrop`, `RandomResizedCrop`) is done
where images are decoded, and the rest on the device.
"""

from hotlap.data.transforms.colour import Normalize as Normalize
from hotlap.data.transforms.colour import RandomHorizontalFlip as RandomHorizontalFlip
from hotlap.data.transforms.geometry import CenterCrop as CenterCrop
from hotlap.data.transforms.geometry import RandomResizedCrop as RandomResizedCrop
from hotlap.data.transforms.geometry import Resize as Resize
from hotlap.data.transforms.mixing import MixUp as MixUp
