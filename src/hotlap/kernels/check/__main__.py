"""`python -m hotlap.kernels.check FILE[:NAME] --out FILE`: one JSON document for each line."""

import argparse
import json
import os
import traceback
from pathlib import Path


def interpret_triton(where: str) -> bool:
    """Have Triton interpret its kernels where the file holds some and there is no GPU for them."""
    import torch

    places = (Path(where), Path(where.rpartition(":")[0]))
    text = next((path.read_text("utf-8") for path in places if path.is_file()), "")
    if torch.cuda.is_available() or "triton.jit" not in text:
        return False
    os.environ["TRITON_INTERPRET"] = "1"
    return True


def main() -> None:
    """Check, then race; each line is written as soon as it is known, since a kernel may crash."""
    parser = argparse.ArgumentParser(prog="python -m hotlap.kernels.check")
    parser.add_argument("where")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--race", choices=("none", "eager", "compile"), default="compile")
    given = parser.parse_args()
    with given.out.open("w", buffering=1) as out:

        def say(kind: str, value: object) -> None:
            out.write(json.dumps({kind: value}) + "\n")

        from hotlap.kernels.check.checks import examine
        from hotlap.kernels.check.racing import race
        from hotlap.kernels.check.subject import SubjectError, load

        interpreted = interpret_triton(given.where)
        try:
            subject = load(given.where)
        except SubjectError as error:
            say("unusable", str(error))
            return
        except Exception as error:
            traceback.print_exc()
            say("unusable", f"{given.where} raised {type(error).__name__}: {error}")
            return
        say("subject", {"device": subject.device, "interpreted": interpreted})
        right = True
        for name, check in examine(subject):
            say("begun", name)
            outcome = check()
            right = right and outcome.passed
            say("outcome", outcome.row())
        if right and given.race != "none" and not interpreted:
            say("begun", "race")
            say("race", race(subject, compiled=given.race == "compile"))
        say("done", True)


if __name__ == "__main__":
    main()
