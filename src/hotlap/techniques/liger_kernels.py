"""Liger-Kernel's operators in models that it knows."""

from hotlap.core.move import Wrap
from hotlap.core.needs import CUDA, MODEL, NOT_FUSED
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Symptom, Technique

technique = Technique(
    title="Use Liger-Kernel in the models that it knows",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    saves_memory=True,
    why=(
        "For models of transformers (Llama, Qwen, Gemma, Mistral and more) Liger-Kernel has fused "
        "Triton kernels for norms, rotary embedding, SwiGLU and the loss from hidden states, which "
        "never holds the whole logits."
    ),
    changes=(
        "The same formulas in other roundings. With labels given, a training output holds the loss "
        "and no logits."
    ),
    avoid=(
        "Leave it off where the script reads the logits of a training step, and in models that "
        "replace those modules themselves."
    ),
    claims=(Claim("20 % throughput, 60 % less memory", "Liger Kernel, 2024"),),
    needs=(
        MODEL,
        CUDA,
        NOT_FUSED,
    ),
    moves=(Wrap("root call", "hotlap.seam.liger:liger"),),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="Liger-Kernel's fused operators",
        place="model",
        gives=0.3,
        sure=False,
        whole=False,
    ),
    examples=(
        Example(
            "from transformers import AutoModelForCausalLM\n\n"
            "model = AutoModelForCausalLM.from_pretrained(name).cuda()\n",
            "from liger_kernel.transformers import AutoLigerKernelForCausalLM\n\n"
            "model = AutoLigerKernelForCausalLM.from_pretrained(name).cuda()\n",
        ),
        Example("import torch\n\nmodel = torch.nn.Linear(4, 4).cuda()\n"),
    ),
)
