"""Linear layers in 8-bit integers, for inference on a CPU."""

from hotlap.core.move import Wrap
from hotlap.core.needs import FLOAT32_MODEL, LINEAR_LAYERS, MODEL
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Quantize linear layers to 8 bits dynamically",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.MOVE,),
    inference=True,
    why=(
        "Weights are read as 8-bit integers, a quarter of the bytes, with a scale for each row; "
        "activations are quantized as they come, with a scale per call. Integer dot products "
        "(AVX-512 VNNI, AMX) and the smaller weights make large linear layers faster on a CPU."
    ),
    changes=(
        "Weights and activations of nn.Linear are rounded to 256 levels: outputs differ by about "
        "1 % of their range. Convolutions, embeddings and normalisation stay as they are. The "
        "float weights stay in memory beside the integers."
    ),
    avoid=(
        "Leave it off for small layers, where quantizing the activations costs more than the "
        "product, on a GPU, and where a task's accuracy has not been checked."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation, dynamic quantization"),),
    needs=(
        Need("inference", "the program trains"),
        MODEL,
        FLOAT32_MODEL,
        LINEAR_LAYERS,
        Need("!cuda", "the 8-bit kernels of torch.ao are for CPUs"),
        Need("!compiled", "the model is compiled"),
        Need("!autocast_on", "autocast is on"),
    ),
    conflicts=("mixed_precision", "fused_pointwise", "cuda_graphs"),
    moves=(Wrap("root call", "hotlap.seam.quantized:int8_linear"),),
    symptom=Symptom(
        phases=("forward",),
        says="linear layers in 8-bit integers",
        place="model",
        gives=0.5,
        sure=False,
        whole=False,
    ),
    examples=(
        Example(
            "def load(path):\n    model = Classifier()\n    return model.eval()\n",
            "import torch\n\n\n"
            "def load(path):\n"
            "    model = Classifier()\n"
            "    layers = {torch.nn.Linear}\n"
            "    return torch.ao.quantization.quantize_dynamic(model.eval(), layers)\n",
        ),
        Example("def train(model, loss):\n    model.train()\n    loss.backward()\n"),
    ),
)
