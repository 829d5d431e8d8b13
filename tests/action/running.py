"""Runs the `run` steps of a composite action on this machine, as a runner would."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ACTION = Path(__file__).parents[2] / "action.yml"


class Runner:
    """`inputs` override the action's defaults; `context` holds the values of `github.*`."""

    def __init__(self, workspace: Path, inputs: dict[str, str], context: dict[str, str]) -> None:
        self.action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
        defaults = {k: v.get("default", "") for k, v in self.action["inputs"].items()}
        self.values = {f"inputs.{k}": v for k, v in (defaults | inputs).items()} | context
        self.workspace, self.temp = workspace, workspace.parent / "runner"
        self.temp.mkdir()
        self.values["runner.temp"] = str(self.temp)
        self.ran: list[str] = []

    def run(self, env: dict[str, str]) -> int:
        """Run the steps in order until one fails; steps that use another action are left out."""
        for step in self.action["runs"]["steps"]:
            if "run" not in step or not self._wanted(step.get("if", "")):
                continue
            self.ran.append(step["name"])
            code = self._step(step, env)
            if code:
                return code
        return 0

    def _step(self, step: dict[str, Any], env: dict[str, str]) -> int:
        output, summary = self.temp / "output", self.temp / "summary.md"
        output.write_text("")
        given = {k: self._filled(v) for k, v in step.get("env", {}).items()}
        own = {
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        where = self.workspace / self._filled(step.get("working-directory", "."))
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=where, env={**os.environ, **env, **own, **given}, check=False,
        )  # fmt: skip
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{\s*([^}]+?)\s*\}\}", lambda m: self.values[m[1]], text)

    def _wanted(self, condition: str) -> bool:
        """Conditions of the form `a != 'x' && b == 'y'`."""
        inside = condition.removeprefix("${{").removesuffix("}}").strip()
        for part in filter(None, inside.split(" && ")):
            name, operator, value = part.split(" ")
            equal = self.values[name] == value.strip("'")
            if equal is not (operator == "=="):
                return False
        return True


def pull_request(base: str) -> dict[str, str]:
    """The `github` context of a pull request against a commit."""
    return {
        "github.event_name": "pull_request",
        "github.event.pull_request.base.sha": base,
        "github.event.pull_request.number": "7",
        "github.repository": "somebody/project",
        "github.token": "none",
        "github.action_path": "unused",
    }


def fake_tools(folder: Path, comments: list[dict[str, Any]], hotlap_bin: Path) -> dict[str, str]:
    """A PATH on which `gh` records its calls and `pip install` does nothing."""
    folder.mkdir()
    (folder / "comments.json").write_text(json.dumps(comments))
    (folder / "gh").write_text(
        "#!/usr/bin/env bash\n"
        f'printf "%s\\n" "$*" >> {folder}/gh.log\n'
        'for word in "$@"; do case "$word" in body=@*) '
        f'cat "${{word#body=@}}" > {folder}/posted.md;; esac; done\n'
        'case "$*" in *--jq*) '
        f"cd {folder}; python -c \"import json; [print(c['id']) "
        "for c in json.load(open('comments.json')) "
        "if c['body'].startswith('<!-- hotlap race -->')]\";; esac\n"
    )
    (folder / "python").write_text(
        "#!/usr/bin/env bash\n"
        'case "$*" in "-m pip install"*) exit 0;; esac\n'
        f'exec {hotlap_bin}/python "$@"\n'
    )
    for tool in ("gh", "python"):
        (folder / tool).chmod(0o755)
    return {"PATH": f"{folder}:{hotlap_bin}:{os.environ['PATH']}"}
