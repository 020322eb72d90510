"""What the tests of both clients speak with: kubeconfigs, refusals, and tokens never to be seen."""

from pathlib import Path
from typing import Any

import yaml

from kandev_operator.contract.claims import Scope

SECRET_TOKEN = "sesame-open-0123456789"
TOKEN = "header.payload.signature"


def kubeconfig(path: Path, url: str, **user: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def unsigned(*_scopes: Scope) -> str:
    return TOKEN
