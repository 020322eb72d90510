"""An operator that lacks a right is not ready, and says which; it works as far as it may."""

import time
from collections.abc import Callable

import pytest

from stage.account import KANDEV, Account
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, task


def wait_for(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("verb", "resource", "group", "words"),
    [
        ("create", "pods", "", "create pods"),
        ("update", "executors/status", KANDEV, "update executors/status.kandev.dev"),
        ("update", "secrets", "", "update secrets"),
    ],
)
def test_a_missing_right_is_named_in_one_line(
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    verb: str,
    resource: str,
    group: str,
    words: str,
) -> None:
    account = Account(place.cluster, place.name)
    operator = make_operator(kubeconfig=account.kubeconfig).start()
    operator.stop()
    with account.without(verb, resource, group):
        operator.start(wait_ready=False)
        said = f"the operator may not {words} in namespace {place.name}"

        def is_told() -> bool:
            try:
                status, page = operator.get("/readyz")
            except (OSError, LookupError):
                return False
            return status == 503 and said in page

        wait_for(is_told, operator.tail)
        # What it may do it does.
        place.apply(task("t1"))
        place.wait("t1", lambda s: s.get("state") == "TODO", "TODO", kind="task")
    operator.wait_ready()
    assert operator.log.read_text().count(said) == 1, "told once"
    assert "the operator may do all it must" in operator.log.read_text()


def test_no_right_to_the_lease_is_named(
    place: Namespace, make_operator: Callable[..., OperatorProcess]
) -> None:
    account = Account(place.cluster, place.name)
    operator = make_operator(kubeconfig=account.kubeconfig)
    with account.without("update", "leases", "coordination.k8s.io"):
        operator.start(wait_ready=False)
        said = f"update leases.coordination.k8s.io kandev-operator in namespace {place.name}"

        def is_told() -> bool:
            try:
                return said in operator.get("/readyz")[1]
            except (OSError, LookupError):
                return False

        wait_for(is_told, operator.tail)
    operator.wait_ready()
