"""The articles' table on this machine, as a record and as the table of its documentation page.

`python -m benchmarks.articles [--quick] [--only A,B]`: rows are added to the record of the day,
in the place of older ones of the same name, so that the table can be measured in parts.
"""

import argparse
import math
import sys
from pathlib import Path

from benchmarks import record
from hotlap.bench.rows import ROWS, Row, chosen
from hotlap.bench.run import QUICK, Finding, Measured, Plan, measure_rows
from hotlap.core.machine import detect
from hotlap.reporting import bench_text

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "articles.md"
HEADING = "## Measured"


def main() -> None:
    """Measure, write the record and the page's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = chosen(tuple(filter(None, options.only.split(","))))
    plan = QUICK if options.quick else Plan()
    found, _ = measure_rows(rows, detect(), plan, lambda row: print(row.id, flush=True))
    known = {row["row"]["id"]: row for row in record.rows("articles")}
    known |= {one.row.id: _plain(one.document()) for one in found}
    ordered = [known[row.id] for row in ROWS if row.id in known]
    summary = {row["row"]["id"]: [row["ratio"], row["low"], row["high"], row["finding"]]
               for row in ordered}  # fmt: skip
    command = " ".join(["python -m benchmarks.articles", *sys.argv[1:]])
    path = record.write("articles", command, ordered, summary)
    _write_page(ordered, path)


def _plain(document: dict[str, object]) -> dict[str, object]:
    """Figures that were not measured as null: JSON has no nan."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in document.items()
    }


def _write_page(rows: list[dict[str, object]], path: Path) -> None:
    by_id = {row.id: row for row in ROWS}
    found = [_measured(by_id[str(row["row"]["id"])], row) for row in rows]  # type: ignore[index]
    text = PAGE.read_text().partition(HEADING)[0].rstrip()
    where = f"On {detect().summary()} (record `{path.parent.name}/{path.stem}`):"
    lines = [text, "", HEADING, "", where, "", *bench_text.markdown(found), ""]
    PAGE.write_text("\n".join(lines))


def _measured(row: Row, document: dict[str, object]) -> Measured:
    names = ("device", "ratio", "low", "high", "pairs", "note")
    fields = {name: math.nan if document[name] is None else document[name] for name in names}
    return Measured(row, Finding(str(document["finding"])), **fields)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
