"""Where a request may come from: hosts, origins, proxies. Pure.

A browser sends cookies wherever a page of the world asks it to, so what changes something, and
every WebSocket upgrade, must come from an origin of ours; and the Host must be one of ours, so that
no foreign name that was pointed at this address is taken. A program without an Origin has no cookie
of somebody else's, and shows its own token.
"""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Origins:
    """What is ours. `ours` empty: any Host is taken, and the origin must be that host's."""

    ours: frozenset[str] = frozenset()
    """Such as https://kandev.dev; a port only where it is not the scheme's own; lower case."""

    def takes_host(self, host: str) -> bool:
        """Whether this Host header is one of ours."""
        return bool(host) and (not self.ours or bool(self._of_host(host)))

    def takes(self, origin: str | None, host: str, *, needed: bool) -> bool:
        """Whether a request with this Origin may go on; `needed` where a cookie speaks for it."""
        if origin is None:
            return not needed
        same_host = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
        # By http anybody on the way can write a page of this name: where it is known by https, no.
        return bool(host) and origin.lower() in (self._of_host(host) or same_host)

    def _of_host(self, host: str) -> frozenset[str]:
        """Our origins with this Host."""
        return frozenset(each for each in self.ours if each.partition("://")[2] == host.lower())


def networks(texts: Collection[str]) -> tuple[Network, ...]:
    """Address ranges as they were written. Raises ValueError that quotes the one."""
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def is_within(address: str | None, trusted: Collection[Network]) -> bool:
    """Whether a peer's address lies in one of these ranges."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found.version == each.version and found in each for each in trusted)
