"""kandev-operator keeps coding agents' sessions alive as Kubernetes objects.

Rooms by duty: `api` (what the cluster stores), `contract` (what agentctl promises), `core` (the
decisions), `clients` (the hands outward), `controller` (the operator), `agentctl` (the sidecar),
`cli` (the kubectl plugin). `operator/README.md` in the repository is the map.
"""

__version__ = "0.1.0"
