"""What sessions in pods of a real node cost the API server, and twenty of them at once."""

from collections.abc import Callable

import pytest

from cluster.certificates import Pki
from cluster.node import Node
from stage import podbirths
from stage.nodescene import NodeScene
from stage.writes import Written

OPERATOR = "operator"
AT_ONCE = 20
EVENTS = 2


@pytest.mark.parametrize("birth", [podbirths.by_template, podbirths.by_ref])
def test_a_session_in_a_pod_is_born_within_its_writes(
    birth: Callable[..., Written], make_stage: Callable[..., NodeScene], node: Node
) -> None:
    seen = birth(make_stage(user=OPERATOR), node.audit, [OPERATOR, Pki.ADMIN])
    assert 0 < seen.count <= podbirths.IN_A_POD, seen.listed()
    ours = [each for each in seen.events if each.user == OPERATOR]
    assert len(ours) <= EVENTS, seen.listed()


@pytest.mark.timeout(600, func_only=True)
def test_twenty_sessions_applied_at_once_all_come_alive(stage: NodeScene) -> None:
    podbirths.crowd(stage, AT_ONCE)
    assert podbirths.troubles(stage) == []
    pods = stage.place.items("pods")
    assert len({each["metadata"]["uid"] for each in pods}) == AT_ONCE
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for each in pods
        for volume in each["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert len(claims) == AT_ONCE, "no two sessions share a workspace"
