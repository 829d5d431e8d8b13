"""torchrun's options, as `hotlap launch` takes them: the same names, the same meaning."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option of torchrun: `--name VALUE`, or a flag where there is no `value`."""

    name: str
    value: str
    help: str
    short: str = ""

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return self.name.replace("-", "_")

    @property
    def spellings(self) -> tuple[str, ...]:
        """As it may be typed: torchrun takes dashes and underscores."""
        return tuple(
            dict.fromkeys((f"--{self.name}", f"--{self.key}", *filter(None, [self.short])))
        )


OPTIONS = (
    Option("nproc-per-node", "N", "Ranks on this node: a number, gpu or auto. Default 1."),
    Option("nnodes", "N|MIN:MAX", "Nodes; a range goes on with fewer. Default 1."),
    Option("node-rank", "N", "This node's number; 0 keeps the store where nodes meet."),
    Option("rdzv-endpoint", "HOST:PORT", "Where the nodes meet."),
    Option("rdzv-backend", "NAME", "How they meet. Default c10d."),
    Option("rdzv-id", "ID", "Name of the job, the same on every node."),
    Option("rdzv-conf", "K=V,...", "More about how they meet."),
    Option("master-addr", "HOST", "The first node: another way to say where they meet."),
    Option("master-port", "PORT", "Goes with --master-addr."),
    Option("local-addr", "ADDRESS", "This node's address. Default: the one towards the others."),
    Option("max-restarts", "N", "How often all ranks start again. Default 3."),
    Option("monitor-interval", "SECONDS", "How often torchrun looks at its ranks."),
    Option("start-method", "NAME", "spawn, fork or forkserver."),
    Option("role", "NAME", "Role of the ranks."),
    Option("log-dir", "DIR", "Where redirected output goes."),
    Option("redirects", "STREAMS", "Streams to write to files.", "-r"),
    Option("tee", "STREAMS", "Streams to write to files and show.", "-t"),
    Option("local-ranks-filter", "RANKS", "Show these ranks' output only."),
    Option("numa-binding", "NAME", "Bind ranks to cores near their GPU."),
    Option("shutdown-timeout", "SECONDS", "How long ranks may take to end when told to."),
    Option("standalone", "", "One node, whatever else is given."),
    Option("module", "", "SCRIPT is a module, as with python -m.", "-m"),
    Option("no-python", "", "SCRIPT is a program of its own."),
    Option("run-path", "", "Run SCRIPT inside the rank's first Python."),
)  # fmt: skip
