"""What the examples in manifests/examples take for granted, so that they can be applied as written.

Images by the same names, with an agent of ours in the place of the real ones; their Secrets; the
storage class. Only the address of the repositories is another.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from cluster.images import agents, oci
from cluster.node import Node, flags
from stage.sessions import Body

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "manifests" / "examples"
ORIGIN: Final = "https://git.example.com"
SECRETS: Final = {
    "anthropic": {"api-key": "k"},
    "git-credentials": {"username": "u", "password": "p"},
}
_COMMANDS: Final = ("claude-agent-acp", "opencode")
_NAME: Final = "localhost/agents-of-the-examples:1"


def text(number: str) -> str:
    """An example as it is written."""
    (path,) = EXAMPLES.glob(f"{number}-*.yaml")
    return path.read_text()


def read(written: str) -> Iterator[Body]:
    """The objects in it; the scripted agent keeps a diary, which is ours and not the example's."""
    for body in yaml.safe_load_all(written):
        if body["kind"] == "AgentProfile" and "claude" in str(body["spec"]["command"]):
            body["spec"]["args"] = ["--log=/workspace/diary"]
        yield body


def secrets() -> list[Body]:
    """The Secrets that they name."""
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        for name, data in SECRETS.items()
    ]


def archive(folder: Path) -> Path:
    """The scripted agent under the names of the real ones, as an image."""
    root, made = folder / "root", folder / "examples.tar"
    root.mkdir()
    for name in _COMMANDS:
        program = root / name
        words = " ".join(agents.SCRIPTED_COMMAND)
        program.write_text(f'#!/bin/sh\n[ "$1" != acp ] || shift\nexec {words} "$@"\n')
        program.chmod(0o755)
    oci.pack(root, made, oci.Settings(_NAME), base=agents.scripted(), at="/usr/local/bin")
    shutil.rmtree(root)
    return made


def prepare(node: Node, image: Path, folder: Path) -> None:
    """Bring the images and the storage class onto the node."""
    node.load(image)
    for body in yaml.safe_load_all(text("06")):
        if "image" in body["spec"]:
            node.ctr("images", "tag", "--force", oci.image_name(image), body["spec"]["image"])
    path = folder / "fast.yaml"
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": flags.PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    path.write_text(yaml.safe_dump(storage))
    node.kubectl("apply", "-f", path)


def clear_away(node: Node) -> None:
    """Take the storage class away."""
    node.kubectl("delete", "storageclass", "fast", "--ignore-not-found")
