"""Packs a folder into an OCI archive: an image without a builder and without a registry.

An archive is a tar file with an index, a manifest, a configuration and layers, each but the first
named by the SHA-256 of its bytes. `pack` makes one layer of a folder and puts it on top of a base
archive's layers, if one is named. The bytes depend on the folder's content alone: names are sorted
and times are dropped, so the same input is the same image.

What is in an image, and making the folders, is the business of the modules beside this one.
"""

import hashlib
import io
import json
import os
import platform
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

# Grows when the same folder becomes other bytes: caches of archives go by it.
LAYOUT = 1

_KIND = "application/vnd.oci.image."
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What the running system fills; in an image they are there, and empty.
_SYSTEM = ("dev", "proc", "sys")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an image says about itself. What is not given is taken over from the base.

    `name` is a whole reference, such as `localhost/agent:1`. `environment` is added to the base's.
    `user` is what a Dockerfile's USER would say.
    """

    name: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    working_folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Blob:
    """Bytes that are named by their digest, as the things that point at them see them."""

    kind: str
    digest: str
    size: int

    @property
    def path(self) -> str:
        return "blobs/" + self.digest.replace(":", "/")

    def descriptor(self, **more: Any) -> dict[str, Any]:
        return {"mediaType": self.kind, "digest": self.digest, "size": self.size, **more}


def pack(
    root: Path, archive: Path, settings: Settings, *, base: Path | None = None, at: str = "/"
) -> None:
    """Write `archive`: the base's layers, and `root` as one more, laid at `at` in the image."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Under another name until it is whole: a cache looks only for the name.
    unfinished = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryFile(dir=archive.parent) as layer:
            _write_layer(root, at, layer)
            blob = _blob_of(layer, "layer.v1.tar")
            with tarfile.open(unfinished, "w") as out:
                _write_image(out, settings, base, blob, layer)
        unfinished.rename(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def image_name(archive: Path) -> str:
    """Return the name under which containerd knows the image of an archive."""
    with tarfile.open(archive) as tar:
        annotations = _json(tar, "index.json")["manifests"][0]["annotations"]
    # Other builders write the whole name where ours writes what comes after the colon.
    name: str = (
        annotations.get("io.containerd.image.name")
        or annotations["org.opencontainers.image.ref.name"]
    )
    return name


def _write_image(
    out: tarfile.TarFile, settings: Settings, base: Path | None, layer: _Blob, content: IO[bytes]
) -> None:
    config, layers = _nothing(), []
    if base is not None:
        with tarfile.open(base) as tar:
            config, layers = _read(tar)
            for descriptor in layers:
                name = _Blob("", descriptor["digest"], 0).path
                member = tar.getmember(name)
                out.addfile(member, tar.extractfile(member))
    _settle(config, settings)
    config["rootfs"]["diff_ids"].append(layer.digest)
    config_blob = _add_json(out, config, "config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": _KIND + "manifest.v1+json",
        "config": config_blob.descriptor(),
        "layers": [*layers, layer.descriptor()],
    }
    manifest_blob = _add_json(out, manifest, "manifest.v1+json")
    if layer.digest not in {descriptor["digest"] for descriptor in layers}:
        _add(out, layer.path, layer.size, content)
    names = {
        "io.containerd.image.name": settings.name,
        "org.opencontainers.image.ref.name": settings.name.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "manifests": [manifest_blob.descriptor(annotations=names)]}
    for name, document in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        text = json.dumps(document, sort_keys=True).encode()
        _add(out, name, len(text), io.BytesIO(text))


def _nothing() -> dict[str, Any]:
    machine = platform.machine()
    return {
        "os": "linux",
        "architecture": _ARCHITECTURES.get(machine, machine),
        "config": {"Env": [f"PATH={_PATH}"]},
        "rootfs": {"type": "layers", "diff_ids": []},
    }


def _settle(config: dict[str, Any], settings: Settings) -> None:
    """Write the settings into the configuration of the base."""
    config.pop("history", None)  # it would have to name each layer
    run = config.setdefault("config", {})
    if settings.entrypoint:
        run["Entrypoint"] = list(settings.entrypoint)
        run.pop("Cmd", None)  # it belonged to the entrypoint before
    if settings.command:
        run["Cmd"] = list(settings.command)
    if settings.user:
        run["User"] = settings.user
    if settings.working_folder:
        run["WorkingDir"] = settings.working_folder
    variables = dict(entry.split("=", 1) for entry in run.get("Env", []))
    variables |= settings.environment
    run["Env"] = [f"{name}={value}" for name, value in variables.items()]


def _read(tar: tarfile.TarFile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the configuration and the layers' descriptors of the one image in an archive."""
    digest = _json(tar, "index.json")["manifests"][0]["digest"]
    manifest = _json(tar, _Blob("", digest, 0).path)
    config = _json(tar, _Blob("", manifest["config"]["digest"], 0).path)
    return config, manifest["layers"]


def _json(tar: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = tar.extractfile(name)
    assert file is not None
    document: dict[str, Any] = json.load(file)
    return document


def _add_json(out: tarfile.TarFile, document: dict[str, Any], kind: str) -> _Blob:
    content = io.BytesIO(json.dumps(document, sort_keys=True).encode())
    blob = _blob_of(content, kind)
    _add(out, blob.path, blob.size, content)
    return blob


def _add(out: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    content.seek(0)
    entry = tarfile.TarInfo(name)
    entry.size = size
    out.addfile(entry, content)


def _blob_of(content: IO[bytes], kind: str) -> _Blob:
    content.seek(0)
    digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    return _Blob(_KIND + kind, f"sha256:{digest}", content.seek(0, io.SEEK_END))


# Layers.


def _write_layer(root: Path, at: str, out: IO[bytes]) -> None:
    place = PurePosixPath("/", at).relative_to("/")
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for parent in [*reversed(place.parents), place]:
            if parent.name:
                layer.addfile(_folder(str(parent)))
        for path in _walk(root):
            name = path.relative_to(root)
            if name.parts[0] in _SYSTEM and not place.name and len(name.parts) > 1:
                continue
            layer.add(path, str(place / name), recursive=False, filter=_without_times)


def _walk(root: Path) -> Iterator[Path]:
    for entry in sorted(root.iterdir()):
        if stat.S_ISSOCK(entry.lstat().st_mode):
            continue
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)


def _folder(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    return entry


def _without_times(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def layers(archive: Path) -> list[str]:
    """Return the digests of an image's layers, the lowest first."""
    with tarfile.open(archive) as tar:
        return [descriptor["digest"] for descriptor in _read(tar)[1]]


def unpacked_size(archive: Path, digest: str) -> int:
    """Return the bytes of all files of a layer, as they lie on a disk."""
    with tarfile.open(archive) as tar:
        content = tar.extractfile(_Blob("", digest, 0).path)
        assert content is not None
        with tarfile.open(fileobj=content) as layer:
            return sum(entry.size for entry in layer if entry.isfile())


def unpack(archive: Path, folder: Path) -> None:
    """Lay the layers of an archive into a folder, owners and all. Deletions are not known here."""
    with tarfile.open(archive) as tar:
        for descriptor in _read(tar)[1]:
            content = tar.extractfile(_Blob("", descriptor["digest"], 0).path)
            assert content is not None
            with tarfile.open(fileobj=content) as layer:
                layer.extractall(folder, numeric_owner=True, filter="fully_trusted")
