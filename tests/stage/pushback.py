"""An API server that turns one user's writes away with 429, by an admission webhook of ours.

Policy engines answer so when they are overloaded, and to a client it looks like the server's own
"too many requests". Reads and watches go on. (A priority level without a seat does not do: the
server lets one request at a time through all the same.)
"""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cluster.controlplane import ControlPlane

NAME = "pushback.kandev.test"


class _Webhook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"code": 429, "reason": "TooManyRequests", "message": "come again later"}
        answer = {"uid": asked["request"]["uid"], "allowed": False, "status": status}
        body = json.dumps({**asked, "request": None, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet: the operator's log tells what matters."""


@contextmanager
def pushback(cluster: ControlPlane, user: str, *resources: str) -> Iterator[None]:
    """Writes of this user to these resources (`group/resource`) are answered 429 in the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Webhook)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*cluster.server_files)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    configured = json.dumps(_configuration(cluster, server.server_port, user, resources))
    cluster.kubectl("apply", "-f", "-", stdin=configured)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=configured)
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(
    cluster: ControlPlane, port: int, user: str, resources: tuple[str, ...]
) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE"],
        }
        for group, _, resource in (each.partition("/") for each in resources)
    ]
    webhook = {
        "name": NAME,
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(cluster.authority_file.read_bytes()).decode(),
        },
        "rules": rules,
        "matchConditions": [
            {"name": "user", "expression": f"request.userInfo.username == '{user}'"}
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "failurePolicy": "Fail",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }
