"""The kinds of values that checks tell apart, and what torch, NumPy and others return.

`HOST` is added to a tensor that is known to lie in the CPU's memory, `SEVERAL` to a list,
dictionary or batch of tensors, `GRAPH` to what autograd can go backward from.
"""

import re

Kinds = frozenset[str]


def _words(text: str) -> Kinds:
    return frozenset(text.split())


NONE: Kinds = frozenset()
MODEL, OPTIMIZER, LOADER, CRITERION, SCALER = "model", "optimizer", "loader", "criterion", "scaler"
TENSOR, GRAPH, ARRAY, DATASET, SCHEDULER = "tensor", "graph", "array", "dataset", "scheduler"
HOST, SEVERAL, ARRAYS = "host", "several", "arrays"
DATA = frozenset({TENSOR, GRAPH, HOST, SEVERAL})
OBJECTS = frozenset({MODEL, OPTIMIZER, LOADER, CRITERION, SCALER, DATASET, SCHEDULER})

CONSTRUCTED = {
    "torch.utils.data.DataLoader": LOADER,
    "torch.amp.GradScaler": SCALER,
    "torch.cuda.amp.GradScaler": SCALER,
    "torch.compile": MODEL,
    "torch.jit.script": MODEL,
    "torch.nn.DataParallel": MODEL,
    "torch.nn.parallel.DistributedDataParallel": MODEL,
    "timm.create_model": MODEL,
    "timm.models.create_model": MODEL,
    "torch.hub.load": MODEL,
}
USES = {
    "zero_grad": OPTIMIZER,
    "eval": MODEL,
    "parameters": MODEL,
    "named_parameters": MODEL,
    "backward": GRAPH,
}
# What people call such a thing; believed only of a name about which nothing else is known.
CALLED = (
    (re.compile(r"(?:^|_|\.)(?:data_?)?loader$|(?:^|_)(?:train|val|valid|test)_dl$"), LOADER),
    (re.compile(r"(?:^|_|\.)(?:criterion|loss_fn|loss_func\w*|criterion_\w+)$"), CRITERION),
    (re.compile(r"(?:^|_|\.)(?:model|net|network|student|discriminator|generator)$"), MODEL),
    (re.compile(r"(?:^|_|\.)(?:optimizer|optim|optimiser)$"), OPTIMIZER),
)  # fmt: skip

LOSSES = _words(
    "cross_entropy mse_loss nll_loss l1_loss smooth_l1_loss binary_cross_entropy kl_div huber_loss "
    "binary_cross_entropy_with_logits ctc_loss triplet_margin_loss cosine_embedding_loss "
    "gaussian_nll_loss poisson_nll_loss margin_ranking_loss hinge_embedding_loss"
)
# Methods of a tensor that return something else.
LEAVES = _words(
    "item tolist numpy size dim numel backward is_contiguous type element_size data_ptr stride "
    "get_device nelement ndimension is_floating_point register_hook retain_grad"
)
NO_GRAPH = _words(
    "detach detach_ argmax argmin eq ne gt lt ge le long int bool sign round floor ceil any all "
    "nonzero argsort isnan isinf isfinite requires_grad_ equal new_zeros new_ones new_tensor "
    "zeros_like ones_like rand_like randn_like empty_like full_like no_grad bincount "
    "logical_and logical_or logical_not tensor one_hot"
)
SHAPES = _words("shape dtype device ndim is_cuda requires_grad grad_fn is_leaf itemsize")
MODEL_KEEPS = _words(
    "to cuda cpu train eval half float double bfloat16 requires_grad_ compile module"
)
# Functions under `torch.` that return no tensor.
OTHER = _words(
    "load device save manual_seed compile is_tensor numel no_grad inference_mode enable_grad "
    "set_grad_enabled set_default_device set_default_dtype set_num_threads get_num_threads "
    "is_grad_enabled is_floating_point finfo iinfo equal allclose is_autocast_enabled "
    "use_deterministic_algorithms set_float32_matmul_precision get_default_dtype get_rng_state "
    "get_device autocast seed initial_seed typename set_printoptions dtype memory_format "
    "result_type promote_types can_cast broadcast_shapes manual_seed_all Generator"
)
CREATED = _words(
    "zeros ones full empty eye arange linspace logspace rand randn randint randperm normal "
    "tensor as_tensor from_numpy Tensor FloatTensor LongTensor IntTensor BoolTensor DoubleTensor "
    "HalfTensor tril_indices triu_indices hann_window frombuffer"
)
ARRAY_MAKERS = _words(
    "array asarray ascontiguousarray asfortranarray zeros ones empty full eye arange linspace "
    "stack vstack hstack dstack concatenate load loadtxt genfromtxt fromfile frombuffer "
    "fromstring memmap zeros_like ones_like full_like empty_like copy pad flip fliplr flipud "
    "expand_dims squeeze transpose moveaxis reshape repeat tile roll rot90 resize swapaxes "
    "logspace meshgrid diag tri tril triu"
)
ARRAY_METHODS = _words(
    "astype reshape transpose copy flatten ravel squeeze swapaxes clip repeat view"
)
ARRAY_FUNCTIONS = _words(
    "cv2.imread cv2.resize cv2.cvtColor cv2.flip cv2.imdecode skimage.io.imread imageio.imread "
    "imageio.v2.imread imageio.v3.imread librosa.feature.melspectrogram scipy.ndimage.zoom "
    "skimage.transform.resize tifffile.imread"
)
PROGRESS = ("tqdm", "rich.progress", "fastprogress", "progressbar", "alive_progress")


def joined(found: list[Kinds]) -> Kinds:
    """The kinds of what is computed from several operands: on the host if every tensor is."""
    tensors = [kinds & DATA for kinds in found if TENSOR in kinds]
    if not tensors:
        return NONE
    whole = frozenset().union(*tensors)
    return whole if all(HOST in kinds for kinds in tensors) else whole - {HOST}


def several(kinds: Kinds) -> Kinds:
    """The kinds of a collection of such things."""
    found = kinds & (DATA | OBJECTS | {ARRAYS})
    if TENSOR in kinds:
        found |= {SEVERAL}
    return found | {ARRAYS} if ARRAY in kinds else found
