"""The planner's claims: dry runs against real ranks; GPT-3 on 16384 GPUs in seconds and little RAM.

`python -m benchmarks.parallel.plan ranks` or `gpt3 WORLD`. `ranks` runs every layout of
tests/plan/layouts.json for real, forked and joined by Gloo, and by dry run. `gpt3` times
`hotlap plan` of the articles' layout (hidden 12288, 96 heads, 96 layers, pipeline 8, tensor 8) on
so many GPUs, with all of its dry runs, and takes the greatest sum of its processes' resident memory
(pages they share count once), its CPU seconds, and the machine's load meanwhile.
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
    done = subprocess.run(
        [sys.executable, str(TESTS / "real_ranks.py")],
        input="\n".join(map(json.dumps, layouts.values())),
        text=True,
        capture_output=True,
        check=True,
    )
    stages = {name: job["parallelism"].get("pp", 1) for name, job in layouts.items()}
    asked = [(name, stage) for name, number in stages.items() for stage in range(number)]
    dry = dict(zip(asked, ask([layouts[n] | {"stage": s} for n, s in asked]), strict=True))
    rows: list[Row] = []
    for name, line in zip(layouts, done.stdout.splitlines(), strict=True):
        found = json.loads(line)
        for rank in found:
            own = dry[name, rank["rank"] * stages[name] // len(found)]
            rows.append(_row(name, rank, own))
    return rows


def _row(name: str, rank: Row, dry: Row) -> Row:
    return {
        "layout": name,
        "rank": rank["rank"],
        "real": rank["peak"],
        "dry": dry["peak"],
        "error": dry["peak"] / rank["peak"] - 1,
        "flops equal": dry["flops"] == rank["flops"],
    }


def resident(process: psutil.Popen) -> tuple[int, int]:
    """Bytes of a process and its children, shared pages counted once; the greatest RSS of one."""
    total, largest = 0, 0
    for each in (process, *process.children(recursive=True)):
        try:
            held = each.memory_full_info()
        except psutil.Error:  # it ended meanwhile
            continue
        total, largest = total + held.pss, max(largest, held.rss)
    return total, largest


def gpt3(world: int) -> Row:
    """Seconds and memory of a whole `hotlap plan`, and what it found."""
    command = [
        sys.executable, "-m", "hotlap", "plan", "gpt3-175b", "--json", "--gpu", "a100", "--gpus",
        str(world), "--batch", str(16 * world // 64), "--tensor", "8", "--pipeline", "8", "--shard",
        str(world // 64), "--micro-batch", "1", "--recompute", "blocks", "--precision",
        "bf16" if world == 64 else "mixed",
    ]  # fmt: skip
    start, most, largest = time.perf_counter(), 0, 0
    with tempfile.TemporaryFile("w+") as out:
        process = psutil.Popen(command, stdout=out)
        while process.poll() is None:
            total, one = resident(process)
            most, largest = max(most, total), max(largest, one)
            time.sleep(0.2)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        (verified,) = json.load(out)["verified"]
    return {
        "world": world,
        "seconds": seconds,
        "CPU seconds": used.ru_utime + used.ru_stime,
        "load": os.getloadavg()[0],
        "resident": most,
        "largest process": largest,
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
            "largest process MB": round(row["largest process"] / 1e6),
            "GiB by stage": {s["stage"]: round(s["peak"] / 2**30, 2) for s in row["stages"]},
        }
    name = "-".join(["parallel-plan", what, *world])
    command = f"python -m benchmarks.parallel.plan {' '.join([what, *world])}"
    record.write(name, command, rows, summary)


if __name__ == "__main__":
    main(*sys.argv[1:])
