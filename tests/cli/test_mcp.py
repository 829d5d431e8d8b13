"""The MCP server, through the SDK's own client over stdio."""

import sys
from pathlib import Path

import anyio
import psutil
import pytest

pytest.importorskip("mcp.client")
from mcp import Client, StdioServerParameters

SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 64)
for step in range(1_000_000):
    loss = model(data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HOTLAP = StdioServerParameters(command=sys.executable, args=["-m", "hotlap", "mcp"])


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def call(name, arguments, progress=None):
    async def main():
        async with Client(HOTLAP) as client:
            return await client.call_tool(name, arguments, progress_callback=progress)

    return anyio.run(main)


def test_the_tools_are_listed_with_schemas():
    async def main():
        async with Client(HOTLAP) as client:
            return await client.list_tools()

    found = {tool.name: tool for tool in anyio.run(main).tools}
    assert set(found) == {"profile", "lint", "race", "tune", "explain"}
    assert all(tool.description and tool.input_schema["properties"] for tool in found.values())


def test_lint_and_explain_answer_with_structured_results(project):
    (project / "slow.py").write_text("from torch.utils.data import DataLoader\nDataLoader([])\n")
    done = call("lint", {"paths": ["."], "folder": str(project), "hints": True})
    assert not done.is_error
    assert done.structured_content["findings"]
    told = call("explain", {"technique": "tf32"}).structured_content
    assert "tf32" in str(told)


def test_a_fault_is_an_error_that_says_what_to_do(project):
    done = call("explain", {"technique": "fused_optimiser"})
    assert done.is_error
    assert "fused_optimizer" in done.content[0].text
    done = call("profile", {"command": "python nowhere.py", "folder": str(project / "no")})
    assert done.is_error
    assert "is no folder" in done.content[0].text


def test_profile_reports_progress_and_phases(project):
    seen = []

    async def progress(at, total, message):
        seen.append((at, total, message))

    python = sys.executable
    arguments = {"command": f"{python} train.py", "folder": str(project), "budget": "5s"}
    done = call("profile", arguments, progress)
    assert not done.is_error, done.content
    assert done.structured_content["phases"]
    assert seen
    assert all(total == 5.0 for _, total, _ in seen)


def test_a_cancelled_tune_leaves_nothing_behind(project):
    async def main():
        async with Client(HOTLAP) as client:
            with anyio.move_on_after(8):
                await client.call_tool(
                    "tune",
                    {"command": f"{sys.executable} train.py", "folder": str(project)},
                )
            await anyio.sleep(0.1)
            with anyio.fail_after(30):
                while running(project):
                    await anyio.sleep(0.2)

    anyio.run(main)
    assert not running(project)
    assert {path.name for path in project.iterdir()} <= {"train.py", ".hotlap"}


def running(project: Path):
    def inside(process: psutil.Process) -> bool:
        where = process.info["cwd"]
        return bool(where) and Path(where).is_relative_to(project)

    return list(filter(inside, psutil.process_iter(["cwd"])))
