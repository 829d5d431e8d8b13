"""What all tests share."""

import os

# Ranks of one machine talk over loopback, whatever the machine's name resolves to.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
