"""Reading objects over one kept connection: what a test polls many times a second.

A kubectl process for every look would be the heaviest load of the whole test run. Only reading,
and only with what a kubeconfig of certificates or a token says; writing is done as a user would.
"""

import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


class Reader:
    """GETs as the kubeconfig's current user. Not for several threads at once."""

    def __init__(self, kubeconfig: Path) -> None:
        told = yaml.safe_load(kubeconfig.read_text())
        context = _named(told["contexts"], told["current-context"])["context"]
        cluster = _named(told["clusters"], context["cluster"])["cluster"]
        user = _named(told["users"], context["user"])["user"]
        where = urlsplit(cluster["server"])
        tls = ssl.create_default_context(cadata=_data(cluster, "certificate-authority").decode())
        if certificate := _data(user, "client-certificate"):
            with tempfile.NamedTemporaryFile(suffix=".pem") as both:
                both.write(certificate + b"\n" + _data(user, "client-key"))
                both.flush()
                tls.load_cert_chain(both.name)
        token = user.get("token")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPSConnection(
            where.hostname or "", where.port, context=tls, timeout=20
        )

    def get(self, path: str) -> dict[str, Any]:
        """The object at this path; LookupError when there is none."""
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException):
            self._connection.close()  # an idle connection that the server closed: once more
            status, body = self._ask(path)
        if status == 404:
            raise LookupError(path)
        assert status == 200, f"GET {path}: {status} {body[:500]!r}"
        found: dict[str, Any] = json.loads(body)
        return found

    def close(self) -> None:
        self._connection.close()

    def _ask(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _data(entry: dict[str, Any], name: str) -> bytes:
    """A certificate or key, inline or in a file of its own."""
    if inline := entry.get(f"{name}-data"):
        return base64.b64decode(inline)
    return Path(entry[name]).read_bytes() if name in entry else b""
