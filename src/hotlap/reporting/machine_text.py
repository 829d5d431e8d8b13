"""How the machine looks in the terminal."""

from rich.console import Console

from hotlap.core.machine import Machine
from hotlap.core.peaks import DevicePeaks, Peaks
from hotlap.reporting.tables import Row, columns, table


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
        rows = [
            Row((f"GEMM {dtype}", f"{rate / 1e9:,.0f} GFLOP/s"))
            for dtype, rate in device.gemm.items()
        ] + [
            Row((title, f"{speed / 1e9:,.1f} GB/s")) for title, speed in _bandwidths(device).items()
        ]
        out.print()
        out.print(table(columns(f"{name}: measured peak", ""), rows, out.width))


def _bandwidths(device: DevicePeaks) -> dict[str, float]:
    found = {
        "copy (read + written)": device.copy,
        "host to device, pageable": device.h2d_pageable,
        "host to device, pinned": device.h2d_pinned,
    }
    return {title: speed for title, speed in found.items() if speed is not None}
