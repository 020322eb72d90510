"""How etcd and the API server are told to run: every flag, and why it is there.

Whatever a real cluster would have and these tests can bear is left at its default, admission
plugins above all. Starting the programs and waiting for them is `controlplane.py`'s business.
"""

import json
from pathlib import Path

from cluster.audit import POLICY
from cluster.certificates import Pki

SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
LOOPBACK = "127.0.0.1"
HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")

_ISSUER = "https://kubernetes.default.svc"
_NEVER_ROTATE_MB = 100_000


def etcd(name: str, data: Path, port: int) -> list[str]:
    url = f"http://{LOOPBACK}:{port}"
    return [
        f"--name={name}",
        f"--initial-cluster={name}=http://localhost:2380",
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        # It has no peers: the address in --initial-cluster is the default that it advertises, and
        # nobody listens there. Port 0 spares the choice of one more free port.
        "--listen-peer-urls=http://127.0.0.1:0",
        # Only a power cut could tell the difference, and it makes every write many times faster.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(pki: Pki, host: str, port: int, etcd_port: int) -> list[str]:
    certificate, key = pki.server_files
    # It would publish its own address as the endpoints of the Service "kubernetes", and the API
    # refuses loopback addresses there: the server would log that forever.
    silent = ["--endpoint-reconciler-type=none"] if host == LOOPBACK else []
    return [
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--bind-address={host}",
        f"--advertise-address={host}",
        f"--secure-port={port}",
        *silent,
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={pki.ca_file}",
        "--authorization-mode=RBAC",
        # Required, and real: tokens from the TokenRequest API can be used and verified.
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-signing-key-file={pki.token_key_file}",
        f"--service-account-key-file={pki.token_public_file}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        # What a pod may ask for is for namespaces' Pod Security levels to refuse, not for a global.
        "--allow-privileged",
    ]


def audit(log: Path, policy: Path) -> list[str]:
    """Return the flags of an audit log that lacks nothing, and write the policy they name."""
    policy.write_text(json.dumps(POLICY))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        # Batches would drop events under load, and a second file would hide them from a count.
        "--audit-log-mode=blocking",
        f"--audit-log-maxsize={_NEVER_ROTATE_MB}",
    ]
