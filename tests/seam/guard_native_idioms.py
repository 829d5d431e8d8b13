# ruff: noqa: E501
"""Idioms of libraries that write below Python's `open`; each prints what it reads back."""

NATIVE = {
    "torch": """
import torch
torch.save({"w": torch.ones(3)}, "ck.pt"); print(torch.load("ck.pt"), torch.load("ck.pt", mmap=True)["w"])
torch.save(torch.zeros(2), Path("runs/old/ckpt.pt")); print(torch.load("latest")); torch.save([1], "\\u00e9.pt"); torch.save([2], "old.pt", _use_new_zipfile_serialization=False); print(torch.load("\\u00e9.pt"), torch.load("old.pt"))
with open("f.pt", "wb") as f: torch.save([3], f)
print(torch.load(open("f.pt", "rb"))); m = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)); m.save("m1.ts"); torch.jit.save(m, "m2.ts"); print(torch.jit.load("m1.ts")(torch.ones(1, 2)).shape, torch.jit.load("m2.ts").code[:3])
fails(torch.save, [1], "no/such/dir.pt"); fails(torch.load, "nothing.pt")
torch.UntypedStorage.from_file("mapped.bin", True, 16).fill_(1); print(open("mapped.bin", "rb").read())
with torch.profiler.profile() as prof: torch.ones(2).add(1)
prof.export_chrome_trace("trace.json"); print(json.load(open("trace.json")).keys() >= {"traceEvents"}); print(sorted(os.listdir()))
""",
    "torch_distributed": """
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("rendezvous"), rank=0, world_size=1); dist.barrier(); dist.destroy_process_group()
s = dist.FileStore("store", 1); s.set("k", "v"); print(s.get("k"), os.path.exists("store"))
""",
    "numpy": """
import numpy as np
np.save("a.npy", np.arange(4)); np.savez("b.npz", x=np.ones(2)); np.savetxt("c.txt", np.ones(2)); np.arange(3, dtype="i4").tofile("d.bin"); print(np.load("a.npy"), np.load("b.npz")["x"], np.loadtxt("c.txt"), np.fromfile("d.bin", "i4"))
m = np.lib.format.open_memmap("e.npy", "w+", shape=(3,)); m[:] = 7; m.flush(); print(np.load("e.npy", mmap_mode="r")); m = np.memmap("log.txt", mode="r+"); m[0] = 65; m.flush(); print(open("log.txt").read(), np.memmap("log.txt", mode="r")[0])
np.arange(3, dtype="i4").tofile(Path("settings.json")); print(os.path.getsize("settings.json"))
""",
    "safetensors": """
import torch; from safetensors.torch import save_file, load_file; from safetensors import safe_open
save_file({"a": torch.ones(2)}, "m.safetensors"); print(load_file("m.safetensors"), os.path.exists("m.safetensors"))
with safe_open("m.safetensors", "pt") as f: print(list(f.keys()))
import numpy as np, safetensors.numpy as sn; sn.save_file({"n": np.ones(1)}, "n.safetensors"); print(sn.load_file("n.safetensors"))
""",
    "h5py": """
import h5py
with h5py.File("x.h5", "w") as f: f["a"] = [1, 2]
with h5py.File("x.h5", "a") as f: f["b"] = 3
with h5py.File("x.h5") as f: print(sorted(f), f["a"][:])
fails(h5py.File, "nothing.h5", "r") if 0 else None; print(os.path.exists("x.h5"))
""",
    "cv2": """
import cv2, numpy as np
print(cv2.imwrite("p.png", np.zeros((4, 4, 3), "u1")), cv2.imread("p.png").shape, os.path.exists("p.png")); os.remove("p.png"); print(cv2.imread("p.png") is None)
""",
    "pictures": """
import matplotlib; matplotlib.use("Agg"); import matplotlib.pyplot as plt; from PIL import Image
plt.plot([1, 2]); plt.savefig("fig.png"); Image.new("RGB", (2, 2)).save("i.jpg"); print(Image.open("fig.png").size, Image.open("i.jpg").size, sorted(os.listdir()))
""",
    "pandas": """
import pandas as pd
df = pd.DataFrame({"a": [1, 2]}); df.to_csv("t.csv", index=False); df.to_csv("t.csv", mode="a", header=False, index=False); print(pd.read_csv("t.csv")); df.to_pickle("t.pkl"); print(pd.read_pickle("t.pkl").shape); df.to_json("t.json"); print(open("t.json").read())
df.to_parquet("t.parquet"); print(pd.read_parquet("t.parquet")); import pyarrow.parquet as pq, pyarrow as pa; print(pq.read_table("t.parquet").num_rows)
with pa.OSFile("o.bin", "wb") as f: f.write(b"12")
print(pa.OSFile("o.bin").read(), sorted(os.listdir()))
""",
    "tensorboard": """
from torch.utils.tensorboard import SummaryWriter
w = SummaryWriter("tb"); w.add_scalar("loss", 1.0, 0); w.add_hparams({"lr": 1}, {"m": 2.0}, run_name="hp"); w.close(); print(len(glob.glob("tb/events*")), os.listdir("tb/hp")[0][:6])
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
e = EventAccumulator("tb"); e.Reload(); print(e.Scalars("loss")[0].value)
""",
}
