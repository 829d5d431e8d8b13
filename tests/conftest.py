"""What all tests share."""

import os
import signal

# Ranks of one machine talk over loopback, whatever the machine's name resolves to.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
