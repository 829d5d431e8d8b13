"""The verdict on an operator, as a table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from hotlap.kernel_check.verdict import RaceRow, Verdict


def show(out: "Console", verdict: "Verdict", *, brief: bool) -> None:
    """Print the checks, the race and what they mean; `brief`: what failed, and the outcome."""
    from hotlap.reporting.tables import Row, columns, table

    rows = []
    for row in verdict.outcomes:
        if brief and row["passed"]:
            continue
        mark = "skipped" if row["skipped"] else "passed" if row["passed"] else "FAILED"
        rows.append(Row((mark, row["check"]), row["detail"]))
    if rows:
        out.print(table(columns("", ""), rows, out.width))
    if verdict.race and not brief:
        out.print(_race(verdict.race, out.width))
    if verdict.interpreted:
        out.print("no GPU: Triton interpreted the kernel on the CPU, which is not raced")
    failed = [row["check"] for row in verdict.outcomes if not row["passed"]]
    if failed:
        out.print(f"rejected: {', '.join(failed)}")
    else:
        out.print(verdict.advice or "correct; not raced")


def _race(rows: "list[RaceRow]", width: int) -> "Text":
    from hotlap.reporting.tables import Row, columns, table

    lines = []
    names = list(rows[0]["speedup_over"])
    for row in rows:
        shape = " x ".join(map(str, row["shape"]))
        lines.append(
            Row(
                (
                    f"{shape}, {row['direction']}",
                    f"{row['seconds']['kernel'] * 1e3:.3f} ms",
                    *(f"{row['speedup_over'][name]:.2f}x" for name in names),
                    _share(row),
                )
            )
        )
    titles = ("shape", "time", *(f"over {name}" for name in names), "of the limit")
    return table(columns(*titles), lines, width)


def _share(row: "RaceRow") -> str:
    """The larger of both: a kernel is limited by the one that it is closer to."""
    shares = {
        "copy bandwidth": row.get("share_of_copy_bandwidth", 0.0),
        "GEMM peak": row.get("share_of_gemm_peak", 0.0),
    }
    name = max(shares, key=shares.__getitem__)
    return f"{shares[name]:.0%} of {name}" if shares[name] else ""
