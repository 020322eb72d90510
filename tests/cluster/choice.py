"""Which cluster does this run test against? The first that applies:

1. `KANDEV_KUBECONFIG` names a kubeconfig: that cluster, as it is.
2. `KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kubectl: a control plane of
   those.
3. kind is installed and a Docker engine answers: a kind cluster.
4. A control plane of our own executable, built from Go modules at its first use.

`KUBECONFIG` and the user's current context are never looked at: tests must not find their way into
a cluster that nobody meant.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from cluster import binaries
from cluster.controlplane import ControlPlane
from cluster.foreign import GivenCluster, KindCluster, kind_is_usable
from cluster.interface import Cluster


def find_control_plane(*, audit: bool = False, extra_apiserver_args: Sequence[str] = ()) -> Cluster:
    """Return the cluster to test against, not started yet.

    The options are for a control plane of our own; another cluster is what it is.
    """
    given = os.environ.get("KANDEV_KUBECONFIG")
    if given:
        return GivenCluster(Path(given).expanduser())
    if binaries.assets() is None and kind_is_usable():
        return KindCluster()
    return ControlPlane(audit=audit, extra_apiserver_args=extra_apiserver_args)
