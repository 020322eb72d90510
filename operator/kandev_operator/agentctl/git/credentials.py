"""A credential for one call: handed to git through a pipe, for one host, and then gone.

A helper that git runs reads it from a descriptor which only this git and its children inherit: it
stands on no disk, in no argument and in no environment (decision 0012). It can be read once. All
other helpers are out of the way for that call, so that none of them stores it.
"""

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import Credential


@dataclass(frozen=True, slots=True)
class Handed:
    """What git needs to find the credential."""

    settings: tuple[tuple[str, str], ...]
    pass_fds: tuple[int, ...]


def check(url: str, credential: Credential) -> str:
    """The scheme and host that the credential is for; raises Refusal for any other URL."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        plain = parts.hostname or ""
    except ValueError:
        parts, host, plain = urlsplit(""), "", ""
    if parts.scheme not in ("https", "http"):
        words = "the remote is not reached by HTTPS, so a credential is of no use there"
        raise Refusal(Code.GIT_CONFIG_UNSAFE, words)
    if host.lower() != credential.host.lower():
        words = "the remote is at another host than the credential is for"
        raise Refusal(Code.GIT_CONFIG_UNSAFE, words)
    if parts.scheme == "http" and not _is_loopback(plain):
        words = "the credential would travel unencrypted"
        raise Refusal(Code.GIT_CONFIG_UNSAFE, words)
    return f"{parts.scheme}://{host}"


@contextmanager
def handed(place: str, credential: Credential) -> Iterator[Handed]:
    """The credential in a pipe, for as long as the block lasts."""
    reading, writing = os.pipe()
    try:
        os.write(
            writing, f"username={credential.username}\npassword={credential.password}\n".encode()
        )
        os.close(writing)
        helper = f'!f() {{ test "$1" != get || cat /dev/fd/{reading}; }}; f'
        settings = (
            ("credential.helper", ""),
            (f"credential.{place}.helper", ""),
            (f"credential.{place}.helper", helper),
        )
        yield Handed(settings, (reading,))
    finally:
        os.close(reading)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
