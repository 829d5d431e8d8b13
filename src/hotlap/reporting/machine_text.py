"""How the machine looks in the terminal."""

from rich.console import Console
from rich.table import Table

from hotlap.core.machine import Machine
from hotlap.core.peaks import DevicePeaks, Peaks


def show(out: Console, machine: Machine, peaks: Peaks, *, brief: bool) -> None:
    """The machine and its measured peaks; `brief` leaves the hint out."""
    out.print(machine.summary())
    if peaks.busy(machine) and not brief:
        out.print(
            f"others were at work when this was measured (load {peaks.load:.1f}): "
            "`hotlap machine --refresh` when idle",
            style="dim",
        )
    for name, device in peaks.devices.items():
        drawn = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
        drawn.add_column(f"{name}: measured peak")
        drawn.add_column("", justify="right")
        for dtype, rate in device.gemm.items():
            drawn.add_row(f"GEMM {dtype}", f"{rate / 1e9:,.0f} GFLOP/s")
        for title, speed in _bandwidths(device).items():
            drawn.add_row(title, f"{speed / 1e9:,.1f} GB/s")
        out.print()
        out.print(drawn)


def _bandwidths(device: DevicePeaks) -> dict[str, float]:
    found = {
        "copy (read + written)": device.copy,
        "host to device, pageable": device.h2d_pageable,
        "host to device, pinned": device.h2d_pinned,
    }
    return {title: speed for title, speed in found.items() if speed is not None}
