"""The pod overlay: what a user may say about an executor's pod.

The operator makes the pod; this is laid over it. It is a small, hand-picked part of a pod
template: the whole, with its descriptions, would make the CRD too large for a client-side apply.
Containers, volumes and variables are lists told apart by name, so an overlay changes what it
names and keeps the rest. Parts that belong to Kubernetes alone (security contexts, affinity,
sources of volumes) are handed through unread; the API server checks the finished pod, and its
words come back under the reason InvalidTemplate.
"""

from typing import Annotated, Any

from pydantic import Field

from kandev_operator.api.agent import Argument, EnvName, Resources
from kandev_operator.api.markers import atomic, list_map
from kandev_operator.api.meta import Model, OpenModel
from kandev_operator.api.refs import NameRef

PartName = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]


class TemplateMetadata(Model):
    """Labels and annotations for an object that is made from a template."""

    labels: dict[str, str] = Field(
        default_factory=dict,
        max_length=64,
        description="Labels to add. Labels under kandev.dev/ are the operator's and win.",
    )
    annotations: dict[str, str] = Field(
        default_factory=dict, max_length=64, description="Annotations to add."
    )


class ContainerEnvVar(Model):
    """One environment variable of a container."""

    name: EnvName = Field(description="Name of the variable.")
    value: str | None = Field(
        default=None, max_length=8192, description="The value itself; excludes `valueFrom`."
    )
    value_from: dict[str, Any] | None = Field(
        default=None,
        description="Where to take the value from, as in a pod: `secretKeyRef`, "
        "`configMapKeyRef`, `fieldRef` or `resourceFieldRef`.",
    )


class VolumeMount(OpenModel):
    """A volume at a path of a container, as in a pod."""

    mount_path: str = Field(
        min_length=1, max_length=1024, description="Path in the container. Each path only once."
    )
    name: PartName = Field(description="Name of the volume.")


class Container(Model):
    """A container of the pod. One named `agent` changes the operator's own; others are added."""

    name: PartName = Field(
        description="Name of the container. `agent` is the one in which agentctl and the agent run."
    )
    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Image to run. For the container `agent`: an image that has the agent in it; "
        "when absent, the AgentProfile's image.",
    )
    image_pull_policy: str | None = Field(
        default=None,
        max_length=16,
        description="When to pull the image, as in a pod: Always, IfNotPresent or Never.",
    )
    command: tuple[Argument, ...] = Field(
        default=(),
        max_length=64,
        description="Entry point. Leave it alone for the container `agent`: agentctl is started "
        "by the operator.",
        json_schema_extra=atomic(),
    )
    args: tuple[Argument, ...] = Field(
        default=(),
        max_length=64,
        description="Arguments of the entry point.",
        json_schema_extra=atomic(),
    )
    env: tuple[ContainerEnvVar, ...] = Field(
        default=(),
        max_length=128,
        description="Environment variables. The agent's own belong in its AgentProfile.",
        json_schema_extra=list_map(),
    )
    env_from: tuple[dict[str, Any], ...] = Field(
        default=(),
        max_length=32,
        description="Whole ConfigMaps or Secrets as environment, as in a pod.",
        json_schema_extra=atomic(),
    )
    resources: Resources | None = Field(
        default=None,
        description="Compute resources of this container. For the container `agent` they win "
        "over those of the AgentProfile.",
    )
    security_context: dict[str, Any] | None = Field(
        default=None, description="Security options of the container, as in a pod."
    )
    volume_mounts: tuple[VolumeMount, ...] = Field(
        default=(),
        max_length=64,
        description="Volumes to mount. The workspace is mounted by the operator, at one path for "
        "life: agents file their history under it.",
        json_schema_extra=list_map("mountPath"),
    )


class Volume(OpenModel):
    """A volume of the pod: a name, and a source as in a pod."""

    name: PartName = Field(description="Name of the volume.")


class Toleration(Model):
    """Lets the pod run on nodes with a matching taint, as in a pod."""

    key: str | None = Field(default=None, max_length=317, description="Key of the taint.")
    operator: str | None = Field(
        default=None, max_length=16, description="Exists, or Equal to compare the value as well."
    )
    value: str | None = Field(default=None, max_length=63, description="Value of the taint.")
    effect: str | None = Field(
        default=None, max_length=32, description="Effect of the taint; absent means every effect."
    )
    toleration_seconds: int | None = Field(
        default=None, description="How long a NoExecute taint is tolerated; absent means forever."
    )


class PodOverlaySpec(Model):
    """What to change in, or add to, the pod."""

    containers: tuple[Container, ...] = Field(
        default=(),
        max_length=16,
        description="Containers to change or add, by name.",
        json_schema_extra=list_map(),
    )
    init_containers: tuple[Container, ...] = Field(
        default=(),
        max_length=16,
        description="Containers that must finish before the agent's starts, in this order. One "
        "that fails shows as InitFailed.",
        json_schema_extra=list_map(),
    )
    volumes: tuple[Volume, ...] = Field(
        default=(),
        max_length=64,
        description="Volumes to add. The workspace's is added by the operator.",
        json_schema_extra=list_map(),
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict,
        max_length=64,
        description="Labels that a node must have.",
        examples=[{"kubernetes.io/arch": "amd64"}],
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(),
        max_length=64,
        description="Taints of nodes that the pod tolerates.",
        json_schema_extra=atomic(),
    )
    affinity: dict[str, Any] | None = Field(
        default=None, description="Rules about nodes and neighbours, as in a pod."
    )
    security_context: dict[str, Any] | None = Field(
        default=None,
        description="Security options of the whole pod, as in a pod. The user and group must be "
        "able to write to the workspace (see `fsGroup`).",
    )
    service_account_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Service account of the pod. The agent needs none, and its token is not "
        "mounted unless a volume here says so.",
    )
    image_pull_secrets: tuple[NameRef, ...] = Field(
        default=(),
        max_length=16,
        description="Secrets with credentials for image registries.",
        json_schema_extra=list_map(),
    )
    priority_class_name: str | None = Field(
        default=None, min_length=1, max_length=253, description="Priority class of the pod."
    )
    runtime_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Runtime class of the pod, for instance a sandboxed one.",
        examples=["gvisor"],
    )


class PodOverlay(Model):
    """A partial pod template, laid over the pod that the operator makes."""

    metadata: TemplateMetadata | None = Field(
        default=None, description="Labels and annotations for the pod."
    )
    spec: PodOverlaySpec | None = Field(
        default=None, description="What to change in, or add to, the pod."
    )
