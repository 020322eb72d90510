"""The few requests that the control plane makes to its own API server, and the one to etcd.

Plain HTTP from the standard library, on a connection per request: what is asked here must work
while the API server is being started, killed and restored, when a client that caches connections
and discovery would be in the way. Tests use kubectl or a real client, not this.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ControlPlaneError

_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Api:
    """The API server as its administrator sees it."""

    def __init__(
        self, port: int, authority: Path, certificate: Path, key: Path, host: str = "127.0.0.1"
    ) -> None:
        self._host = host
        self._port = port
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        """Send one request. Raises OSError as long as nobody listens or answers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPSConnection(
            self._host, self._port, context=self._context, timeout=_TIMEOUT
        )
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": content_type, **named})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()

    def demand(
        self, method: str, path: str, body: Any = None, *, allow: int = 0, **more: str
    ) -> Any:
        """Send one request that must succeed, or fail with the one code that is allowed."""
        answer = self.request(method, path, body, **more)
        if answer.code >= 300 and answer.code != allow:
            text = answer.body.decode(errors="replace")
            raise ControlPlaneError(f"{method} {path}: {answer.code} {text}")
        return answer.json


def etcd_answers(port: int, name: str) -> bool:
    """Tell whether the etcd of that name leads its cluster of one, behind this port.

    By name, because two control planes that start at once may choose the same port: one of them
    must then find that its own etcd ended, and not be content with the other's.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("POST", "/v3/cluster/member/list", "{}")
        members = json.loads(connection.getresponse().read()).get("members", [])
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"etcd: {error!r}") from error
    finally:
        connection.close()
    return [member.get("name") for member in members] == [name]
