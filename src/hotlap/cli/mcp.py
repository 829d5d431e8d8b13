"""`hotlap mcp`."""

import click

from hotlap.core.errors import UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def mcp() -> None:
    """Serve profile, lint, race, tune and explain to a coding agent over stdio (MCP)."""
    try:
        from hotlap.cli.mcp_server import server
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the MCP server needs the package {error.name}", "pip install 'hotlap[mcp]'"
        ) from None
    server().run("stdio")
