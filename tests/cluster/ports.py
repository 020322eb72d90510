"""Ports on the loopback that nobody uses now and few are likely to want.

They lie below the range from which the kernel gives ports to outgoing connections. A port from
within that range, as binding to port 0 would give, may be gone by the time a killed API server is
started on it again.
"""

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free(count: int) -> list[int]:
    """Return distinct ports that could be listened on a moment ago."""
    highest = _first_of_kernel() - 1
    found: list[int] = []
    for port in random.sample(range(_LOWEST, highest), highest - _LOWEST):
        if _can_be_bound(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError("no free port on the loopback")


def _first_of_kernel() -> int:
    try:
        first = int(_KERNEL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return max(first, _LOWEST + 1000)


def _can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a connection that lingers after a kill does not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
