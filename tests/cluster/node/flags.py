"""How each program of a node is told to run: flags and configuration files, and why.

Pure but for the files it writes below the node's folder. etcd and the API server are told in
`cluster/flags.py`; what is added for the API server when there is a node is here. Starting the
programs, and waiting for them, is `node.py`'s business.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from cluster.flags import LOOPBACK

NAME = "kandev-node"
BRIDGE = "kandev0"
SUBNET = "10.244.0.0/24"
GATEWAY = "10.244.0.1"
PREFIX = 24
DOMAIN = "cluster.local"
SANDBOX_IMAGE = "localhost/pause:1"
STORAGE_CLASS = "local"
PROVISIONER = "kandev.dev/local"
DNS_USER = "system:coredns"

# Seconds of silence until a node counts as NotReady. A lease must be renewed well within it.
_NODE_GRACE = 20
_LEASE = 10


@dataclass(frozen=True, slots=True)
class Ports:
    """What listens beside etcd and the API server; on the loopback but for the kubelet's own."""

    controllers: int
    scheduler: int
    kubelet: int
    kubelet_health: int
    proxy_health: int
    proxy_metrics: int
    dns_health: int

    COUNT = 7


def apiserver(ca: Path, client_certificate: Path, client_key: Path) -> list[str]:
    """What the API server needs on top, to speak with a kubelet and to trust it no further."""
    return [
        # Nobody has that name. Without an authority here the controllers complain for ever that
        # they cannot learn who may speak in another's name.
        f"--requestheader-client-ca-file={ca}",
        "--requestheader-allowed-names=nobody",
        "--requestheader-username-headers=X-Remote-User",
        # A repeated list flag adds to the list: RBAC is there already.
        "--authorization-mode=Node",
        "--enable-admission-plugins=NodeRestriction",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={client_certificate}",
        f"--kubelet-client-key={client_key}",
    ]


def controllers(kubeconfig: Path, ca: Path, token_key: Path, folder: Path, port: int) -> list[str]:
    return [
        *_controller(kubeconfig, folder, port),
        f"--service-account-private-key-file={token_key}",
        f"--root-ca-file={ca}",
        "--use-service-account-credentials",
        f"--node-monitor-grace-period={_NODE_GRACE}s",
        "--node-monitor-period=2s",
    ]


def scheduler(kubeconfig: Path, folder: Path, port: int) -> list[str]:
    return _controller(kubeconfig, folder, port)


def _controller(kubeconfig: Path, folder: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        # There is one of each; a lease would only make a restart wait for the old one's end.
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        # The default of 20 a second would be what a test with many pods measures.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def containerd(folder: Path, cni_programs: Path) -> list[str]:
    """Write containerd's and the network's configuration. Its socket is `socket(folder)`."""
    home = folder / "containerd"
    networks = home / "networks"
    networks.mkdir(parents=True)
    (networks / "10-bridge.conflist").write_text(json.dumps(_network(home / "addresses")))
    config = home / "config.toml"
    config.write_text(f"""version = 2
root = "{home}/root"
state = "{home}/state"
# No change: lowering it takes a privilege that root in a container may lack.
oom_score = 0

[grpc]
address = "{socket(folder)}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
restrict_oom_score_adj = true
# Below our own folder, where they are found and removed.
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni_programs}"
conf_dir = "{networks}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{home}/runc"
""")
    return [f"--config={config}"]


def socket(folder: Path) -> Path:
    return folder / "containerd" / "s"


def _network(addresses: Path) -> dict[str, object]:
    ipam = {
        "type": "host-local",
        "dataDir": str(addresses),
        "ranges": [[{"subnet": SUBNET}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        # A pod may call a Service that leads back to itself.
        "hairpinMode": True,
        "ipam": ipam,
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": BRIDGE, "plugins": [bridge, portmap]}


def kubelet(kubeconfig: Path, ca: Path, folder: Path, ports: Ports) -> list[str]:
    home = folder / "kubelet"
    home.mkdir()
    config = folder / "kubelet.json"
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": GATEWAY,
        "port": ports.kubelet,
        "readOnlyPort": 0,
        "healthzPort": ports.kubelet_health,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{socket(folder)}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [GATEWAY],
        "clusterDomain": DOMAIN,
        "maxPods": 200,
        "serializeImagePulls": False,
        # A developer's disk is often nearly full; what a test fills is a volume with a limit.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "evictionPressureTransitionPeriod": "10s",
        # Images come from archives, so one that is collected as garbage cannot come back.
        "imageGCHighThresholdPercent": 100,
        # How often a volume's use is measured, which an eviction waits for: a minute by default.
        "volumeStatsAggPeriod": "5s",
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": _LEASE,
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
    }
    config.write_text(json.dumps(settings, indent=2))
    return [
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={home}",
        f"--cert-dir={folder}/pki/kubelet",
        f"--hostname-override={NAME}",
        f"--node-ip={GATEWAY}",
    ]


def proxy(kubeconfig: Path, ports: Ports) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        f"--cluster-cidr={SUBNET}",
        "--proxy-mode=iptables",
        # How many connections the machine tracks is not ours to change.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        f"--healthz-bind-address={LOOPBACK}:{ports.proxy_health}",
        f"--metrics-bind-address={LOOPBACK}:{ports.proxy_metrics}",
    ]


def dns(kubeconfig: Path, folder: Path, ports: Ports) -> list[str]:
    """On the bridge, as a program of the host: no Service and no pod is needed for it."""
    config = folder / "Corefile"
    # Nothing is forwarded: a name outside the cluster fails at once, and no test leaves it.
    config.write_text(f""".:53 {{
    bind {GATEWAY}
    errors
    health {LOOPBACK}:{ports.dns_health}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 2
    }}
    cache 2
}}
""")
    return ["-conf", str(config)]


def provisioner(kubeconfig: Path, folder: Path) -> list[str]:
    volumes = folder / "volumes"
    volumes.mkdir()
    return [f"-kubeconfig={kubeconfig}", f"-folder={volumes}", f"-node={NAME}"]


def objects() -> list[tuple[str, dict[str, object]]]:
    """What the cluster needs in its API: paths to post to, and bodies."""
    group = "rbac.authorization.k8s.io"
    name = {"name": "kandev-test:dns"}
    reads = ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": reads},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": reads},
    ]
    binding = {
        "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": DNS_USER}],
    }
    return [
        (f"/apis/{group}/v1/clusterroles", {"metadata": name, "rules": rules}),
        (f"/apis/{group}/v1/clusterrolebindings", binding),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {
                    "name": STORAGE_CLASS,
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": PROVISIONER,
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        ),
    ]
