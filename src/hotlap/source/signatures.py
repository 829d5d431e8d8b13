"""Parameters of torch's callables that may be given by position, and defaults that moves ask for.

A table, because this half runs without torch; a test holds it against torch's own signatures.
"""

_FIRST = ("params", "lr")
POSITIONS: dict[str, tuple[str, ...]] = {
    "torch.utils.data.DataLoader": (
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers",
        "collate_fn", "pin_memory", "drop_last",
    ),
    "torch.optim.Adam": (*_FIRST, "betas", "eps", "weight_decay", "amsgrad"),
    "torch.optim.AdamW": (*_FIRST, "betas", "eps", "weight_decay", "amsgrad"),
    "torch.optim.SGD": (*_FIRST, "momentum", "dampening", "weight_decay", "nesterov"),
    "torch.optim.Adagrad": (
        *_FIRST, "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "foreach",
    ),
    "torch.optim.Optimizer.zero_grad": ("set_to_none",),
    "torch.nn.Module.zero_grad": ("set_to_none",),
    "torch.nn.parallel.DistributedDataParallel": (
        "module", "device_ids", "output_device", "dim", "broadcast_buffers", "init_sync",
        "process_group", "bucket_cap_mb", "find_unused_parameters", "check_reduction",
        "gradient_as_bucket_view", "static_graph",
    ),
    "transformers.TrainingArguments": ("output_dir",),
    "transformers.Seq2SeqTrainingArguments": ("output_dir",),
}  # fmt: skip

DEFAULTS: dict[tuple[str, str], object] = {
    ("torch.utils.data.DataLoader", "num_workers"): 0,
    ("transformers.TrainingArguments", "dataloader_num_workers"): 0,
    ("transformers.Seq2SeqTrainingArguments", "dataloader_num_workers"): 0,
}
