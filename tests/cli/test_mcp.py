"""The MCP server, through the SDK's own client over stdio."""

import sys
from pathlib import Path

import anyio
import psutil
import pytest

pytest.importorskip("mcp.client")
from mcp import Client, StdioServerParameters

from light import light

SCRIPT = """
import time
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 64)
for step in range(1_000_000):
    loss = model(data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
"""
HOTLAP = StdioServerParameters(command=sys.executable, args=["-m", "hotlap", "mcp"])


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text(light(SCRIPT))
    return tmp_path


def call(name, arguments, progress=None):
    async def main():
        async with Client(HOTLAP) as client:
            return await client.call_tool(name, arguments, progress_callback=progress)

    return anyio.run(main)


def test_the_tools_are_listed_and_answer_with_results_or_errors_that_say_what_to_do(project):
    (project / "slow.py").write_text("from torch.utils.data import DataLoader\nDataLoader([])\n")

    async def main():
        async with Client(HOTLAP) as client:
            return (
                await client.list_tools(),
                await client.call_tool(
                    "lint", {"paths": ["."], "folder": str(project), "hints": True}
                ),
                await client.call_tool("explain", {"technique": "tf32"}),
                await client.call_tool("explain", {"technique": "fused_optimiser"}),
                await client.call_tool(
                    "profile", {"command": "python nowhere.py", "folder": str(project / "no")}
                ),
            )

    listed, found, told, unknown, nowhere = anyio.run(main)
    tools = {tool.name: tool for tool in listed.tools}
    assert set(tools) == {"profile", "lint", "race", "tune", "explain"}
    assert all(tool.description and tool.input_schema["properties"] for tool in tools.values())
    assert not found.is_error
    assert found.structured_content["findings"]
    assert "tf32" in str(told.structured_content)
    assert unknown.is_error
    assert "fused_optimizer" in unknown.content[0].text
    assert nowhere.is_error
    assert "is no folder" in nowhere.content[0].text


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
            async with anyio.create_task_group() as tasks:
                arguments = {"command": f"{sys.executable} train.py", "folder": str(project)}
                tasks.start_soon(client.call_tool, "tune", arguments)
                with anyio.fail_after(60):
                    while not training(project):
                        await anyio.sleep(0.2)
                await anyio.sleep(0.5)
                tasks.cancel_scope.cancel()
            await anyio.sleep(0.1)
            with anyio.fail_after(30):
                while running(project):
                    await anyio.sleep(0.2)

    anyio.run(main)
    assert not running(project)
    assert {path.name for path in project.iterdir()} <= {"train.py", ".hotlap"}


def training(project: Path):
    return [process for process in running(project) if process.cmdline()[-1:] == ["train.py"]]


def running(project: Path):
    def inside(process: psutil.Process) -> bool:
        where = process.info["cwd"]
        return bool(where) and Path(where).is_relative_to(project)

    return list(filter(inside, psutil.process_iter(["cwd"])))
