"""Whoever cannot have a node is told why, and what to type."""

import os
import shutil

import pytest

from cluster.errors import ControlPlaneError
from cluster.node import Node, packages


def test_who_is_not_root_is_told_that_a_node_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ControlPlaneError, match="a node needs root"):
        Node().start()


def test_missing_commands_become_one_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages, "CNI_FOLDERS", ())
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ControlPlaneError) as told:
        packages.ensure()
    assert str(told.value).endswith(
        "apt-get install buildah conntrack containerd containernetworking-plugins iproute2"
        " iptables mmdebstrap mount runc"
    )


def test_what_is_there_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "missing_packages", list)
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: pytest.fail("apt was called"))
    packages.ensure()
