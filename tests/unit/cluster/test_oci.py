"""An image is a function of its folder and its settings, and stacks on another's layers."""

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cluster.images import oci


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o755)
    os.link(folder / "bin" / "tool", folder / "bin" / "twin")
    (folder / "link").symlink_to("bin/tool")
    (folder / "proc").mkdir()
    (folder / "proc" / "version").write_text("of this machine")
    return folder


def blobs(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        content = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    return content


def manifest_and_config(archive: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    content = blobs(archive)
    digest = json.loads(content["index.json"])["manifests"][0]["digest"]
    manifest = json.loads(content["blobs/" + digest.replace(":", "/")])
    config = json.loads(content["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    return manifest, config


def layer_names(archive: Path, number: int) -> list[str]:
    manifest, _ = manifest_and_config(archive)
    with tarfile.open(archive) as tar:
        name = "blobs/" + manifest["layers"][number]["digest"].replace(":", "/")
        with tarfile.open(fileobj=tar.extractfile(name)) as layer:
            return layer.getnames()


def test_every_blob_is_named_by_its_bytes(root: Path, tmp_path: Path) -> None:
    oci.pack(root, tmp_path / "a.tar", oci.Settings("localhost/a:1"))
    named = {name: data for name, data in blobs(tmp_path / "a.tar").items() if "sha256" in name}
    assert len(named) == 3
    for name, data in named.items():
        assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


def test_the_same_folder_is_the_same_image_whenever_it_was_made(root: Path, tmp_path: Path) -> None:
    oci.pack(root, tmp_path / "a.tar", oci.Settings("localhost/a:1"))
    os.utime(root / "bin" / "tool", (1, 1))
    oci.pack(root, tmp_path / "b.tar", oci.Settings("localhost/a:1"))
    assert manifest_and_config(tmp_path / "a.tar") == manifest_and_config(tmp_path / "b.tar")


def test_what_the_running_system_fills_stays_empty(root: Path, tmp_path: Path) -> None:
    oci.pack(root, tmp_path / "a.tar", oci.Settings("localhost/a:1"))
    assert layer_names(tmp_path / "a.tar", 0) == ["bin", "bin/tool", "bin/twin", "link", "proc"]


def test_an_image_on_a_base_adds_one_layer_and_keeps_what_the_base_said(
    root: Path, tmp_path: Path
) -> None:
    first = oci.Settings(
        "localhost/a:1", entrypoint=("/bin/tool",), user="7", environment={"A": "1", "B": "1"}
    )
    oci.pack(root, tmp_path / "a.tar", first)
    more = tmp_path / "more"
    more.mkdir()
    (more / "file").write_text("x")
    second = oci.Settings("localhost/b:1", command=("serve",), environment={"B": "2"})
    oci.pack(more, tmp_path / "b.tar", second, base=tmp_path / "a.tar", at="/opt/more")
    manifest, config = manifest_and_config(tmp_path / "b.tar")
    base_manifest, _ = manifest_and_config(tmp_path / "a.tar")
    assert manifest["layers"][:1] == base_manifest["layers"]
    assert [layer["digest"] for layer in manifest["layers"]] == config["rootfs"]["diff_ids"]
    assert layer_names(tmp_path / "b.tar", 1) == ["opt", "opt/more", "opt/more/file"]
    assert config["config"]["Entrypoint"] == ["/bin/tool"]
    assert config["config"]["Cmd"] == ["serve"]
    assert config["config"]["User"] == "7"
    assert config["config"]["Env"][1:] == ["A=1", "B=2"]
    assert oci.image_name(tmp_path / "b.tar") == "localhost/b:1"


def test_another_entrypoint_drops_the_words_that_belonged_to_the_old_one(
    root: Path, tmp_path: Path
) -> None:
    first = oci.Settings("localhost/a:1", entrypoint=("/bin/tool",), command=("serve",))
    oci.pack(root, tmp_path / "a.tar", first)
    second = oci.Settings("localhost/b:1", entrypoint=("/bin/twin",))
    oci.pack(root, tmp_path / "b.tar", second, base=tmp_path / "a.tar")
    assert "Cmd" not in manifest_and_config(tmp_path / "b.tar")[1]["config"]


def test_an_archive_that_could_not_be_finished_is_not_there(root: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        oci.pack(root, tmp_path / "a.tar", oci.Settings("localhost/a:1"), base=tmp_path / "none")
    assert [entry.name for entry in tmp_path.iterdir()] == ["root"]
