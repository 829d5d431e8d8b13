"""The planner's claims: dry runs against real ranks; GPT-3 on 16384 GPUs in seconds and little RAM.

`python -m benchmarks.parallel.plan ranks` or `gpt3 WORLD`. `ranks` runs every layout of
tests/plan/layouts.json for real, forked and joined by Gloo, and by dry run. `gpt3` times
`hotlap plan` of the articles' layout (hidden 12288, 96 heads, 96 layers, pipeline 8, tensor 8) on so
many GPUs, with all of its dry runs, and takes the greatest sum of its processes' resident memory
(pages they share count for each), its CPU seconds, and the machine's load meanwhile.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks import record
from hotlap.plan.child import ask

TESTS = Path(__file__).parents[2] / "tests" / "plan"
Row = dict[str, Any]


def ranks() -> list[Row]:
    """Peak bytes of every real rank, and of its dry run."""
    layouts = json.loads((TESTS / "layouts.json").read_text())
    rows: list[Row] = []
    for name, job in layouts.items():
        real = subprocess.run(
            [sys.executable, str(TESTS / "real_ranks.py")],
            input=json.dumps(job), text=True, capture_output=True, check=True,
        )  # fmt: skip
        found = json.loads(real.stdout)
        stages = job["parallelism"].get("pp", 1)
        dry = ask([job | {"stage": stage} for stage in range(stages)])
        for rank in found:
            own = dry[rank["rank"] * stages // len(found)]
            rows.append(
                {
                    "layout": name,
                    "rank": rank["rank"],
                    "real": rank["peak"],
                    "dry": own["peak"],
                    "error": own["peak"] / rank["peak"] - 1,
                    "flops equal": own["flops"] == rank["flops"],
                }
            )
            print(rows[-1], flush=True)
    return rows


def resident(process: psutil.Popen) -> int:
    """Bytes of a process and its children; shared pages are counted for each."""
    total = 0
    try:
        for each in (process, *process.children(recursive=True)):
            total += each.memory_info().rss
    except psutil.Error:  # it ended meanwhile
        return 0
    return total


def gpt3(world: int) -> Row:
    """Seconds and memory of a whole `hotlap plan`, and what it found."""
    command = [
        sys.executable, "-m", "hotlap", "plan", "gpt3-175b", "--json", "--gpu", "a100", "--gpus",
        str(world), "--batch", str(16 * world // 64), "--tensor", "8", "--pipeline", "8", "--shard",
        str(world // 64), "--micro-batch", "1", "--recompute", "blocks", "--precision",
        "bf16" if world == 64 else "mixed",
    ]  # fmt: skip
    start, most = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as out:
        process = psutil.Popen(command, stdout=out)
        while process.poll() is None:
            most = max(most, resident(process))
            time.sleep(0.05)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        (verified,) = json.load(out)["verified"]
    return {
        "world": world,
        "seconds": seconds,
        "CPU seconds": used.ru_utime + used.ru_stime,
        "load": os.getloadavg()[0],
        "resident": most,
        "formula": verified["plan"]["memory"],
        "stages": verified["ranks"],
    }


def main(what: str, *world: str) -> None:
    """Measure, and write the record."""
    if what == "ranks":
        rows = ranks()
        summary = {
            "layouts": len({row["layout"] for row in rows}),
            "ranks": len(rows),
            "largest error": max(abs(row["error"]) for row in rows),
            "flops equal": all(row["flops equal"] for row in rows),
        }
    else:
        rows = [row := gpt3(int(world[0]))]
        summary = {
            "seconds": round(row["seconds"], 1),
            "CPU seconds": round(row["CPU seconds"], 1),
            "load": round(row["load"], 1),
            "resident MB": round(row["resident"] / 1e6),
            "GiB by stage": {s["stage"]: round(s["peak"] / 2**30, 2) for s in row["stages"]},
        }
    name = "-".join(["parallel-plan", what, *world])
    command = f"python -m benchmarks.parallel.plan {' '.join([what, *world])}"
    record.write(name, command, rows, summary)


if __name__ == "__main__":
    main(*sys.argv[1:])
