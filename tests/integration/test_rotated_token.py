"""A service account's token is replaced under a running operator (B058, B059).

The old one is not only out of date but dead: it was bound to an object that is deleted, so every
client that still holds it meets 401. Has a control plane of its own, whose API server is killed so
that the watch has to open its streams anew.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from integration.conftest import REPOSITORY, end_agentctls
from stage.account import Account
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task

NAME = "rotated"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as own:
        own.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
        own.kubectl("wait", "--for=condition=Established", "-f", str(REPOSITORY / "crds"))
        own.create_namespace(NAME)
        yield own


class Tokens:
    """Tokens of the operator's service account, in the file that its kubeconfig names."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.cluster = cluster
        self.file = folder / "token"
        self.kubeconfig = folder / "with-token-file.json"
        self.number = 0
        Account(cluster, NAME)  # for its Role
        self._do("create", "serviceaccount", "operator")
        self._do(
            *("create", "rolebinding", "operator-account"),
            *("--role=operator", f"--serviceaccount={NAME}:operator"),
        )
        document = json.loads(cluster.kubeconfig.read_text())
        document["users"][0]["user"] = {"tokenFile": str(self.file)}
        self.kubeconfig.write_text(json.dumps(document))

    def _do(self, *words: str) -> str:
        return self.cluster.kubectl("-n", NAME, *words)

    def renew(self) -> None:
        """A new token in the file; the one before stays good."""
        self.number += 1
        bound = f"bound-{self.number}"
        self._do("create", "secret", "generic", bound)
        token = self._do(
            *("create", "token", "operator", "--bound-object-kind=Secret"),
            f"--bound-object-name={bound}",
        )
        self.write(token)

    def write(self, token: str) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(token)
        part.replace(self.file)

    def kill(self, number: int) -> None:
        """What this token was bound to is gone, so it is refused from now on."""
        self._do("delete", "secret", f"bound-{number}")


@pytest.fixture
def stage(cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[Namespace, Tokens]]:
    root = tmp_path / "root"
    root.mkdir()
    yield Namespace(cluster, NAME, root), Tokens(cluster, tmp_path)
    end_agentctls(root)


@pytest.mark.timeout(180)
async def test_b058_b059_a_token_is_read_again_by_every_client(
    cluster: ControlPlane, stage: tuple[Namespace, Tokens], tmp_path: Path
) -> None:
    place, tokens = stage
    tokens.renew()
    operator = OperatorProcess(
        tokens.kubeconfig,
        tmp_path / "operator.log",
        namespaces=[NAME],
        roots={NAME: place.root},
        lease_namespace=NAME,
    )
    place.tail = operator.tail
    try:
        operator.start()
        place.apply(profile(), task(), session("s", place.worktree("s")))
        before = place.wait_idle("s")

        # Rotated, and the old one dead: both clients go on with the new one.
        tokens.renew()
        tokens.kill(1)
        await asyncio.to_thread(cluster.kill_apiserver)
        await asyncio.to_thread(cluster.start_apiserver)
        await asyncio.to_thread(operator.wait_ready, 45)
        handled(place, "second")

        # Only a dead one to be had: not ready, clearly so, and no session is to blame.
        tokens.kill(2)
        tokens.write("not-a-token-any-more")
        await asyncio.to_thread(cluster.kill_apiserver)
        await asyncio.to_thread(cluster.start_apiserver)
        end = time.monotonic() + 30
        while "nauthorized" not in operator.get("/readyz")[1]:
            assert time.monotonic() < end, operator.get("/readyz")
            await asyncio.sleep(0.1)
        assert operator.get("/readyz")[0] == 503
        assert operator.get("/healthz")[0] == 200
        assert "not-a-token-any-more" not in operator.log.read_text()
        status = place.status("s")
        assert status["state"] == "WAITING_FOR_INPUT"
        assert status["epoch"] == before["epoch"]
        assert place.get("tasksession", "second")["status"]["state"] == "CREATED"

        tokens.renew()
        await asyncio.to_thread(operator.wait_ready, 60)
        handled(place, "third")
        status = place.wait_idle("s")
        assert status["agentExecutionId"] == before["agentExecutionId"]
    finally:
        operator.kill()


def handled(place: Namespace, name: str) -> None:
    place.apply(session(name, place.worktree(name), operatingMode="Suspended"))
    place.wait(name, lambda now: now.get("conditions"), "handled", seconds=30)
