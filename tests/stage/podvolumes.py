"""A played node's volumes: a folder for each, and a pod's texts with its paths as they are here."""

import contextlib
import os
import re
import sys
import time
from pathlib import Path

from kandev_operator.core.pods import layout
from stage.podparts import Body, Container, Hand, Pod, decoded

RENEWED_AFTER = 3.0
"""Seconds until a node looks whether a mounted object has changed: a real one takes a minute."""
OURS = (str(Path(__file__).resolve().parents[2]), sys.prefix)
"""This checkout, and the interpreter with all that is installed in it."""


class Volumes:
    """The part of a node that mounts. Claims are kept by name, all else with the pod."""

    folder: Path
    _hand: Hand
    _base: str

    def _event(self, pod: Pod, message: str) -> None:
        """Say that something cannot be mounted."""
        raise NotImplementedError

    def _program(self, words: list[str]) -> list[str]:
        """agentctl without the C library that its image brings; the image's own entry point is
        this repository's."""
        loader = len(layout.AGENTCTL) - 1
        if words[:loader] == [*layout.AGENTCTL[:loader]]:
            return words[loader:]
        if words[0] == "install":
            return [sys.executable, "-m", "kandev_operator.agentctl", *words]
        return words

    def _told(self, pod: Pod, container: Container, text: str) -> str:
        """A text of the pod with its paths as they are on this machine."""
        if text == "--host=0.0.0.0":
            return f"--host={pod.address}"
        mounts = {
            each["mountPath"]: str(self._volume(pod, each["name"]))
            for each in container.spec.get("volumeMounts") or ()
        }
        if not mounts:
            return text
        paths = "|".join(re.escape(each) for each in sorted(mounts, key=len, reverse=True))

        def here(found: re.Match[str]) -> str:
            # Programs of this machine may lie below a path that the pod has a volume for.
            return found[0] if text.startswith(OURS, found.start()) else mounts[found[0]]

        return re.sub(rf"(?<![\w/.-])({paths})(?![\w.-])", here, text)

    def _volume(self, pod: Pod, name: str) -> Path:
        volume = next(each for each in pod.body["spec"]["volumes"] if each["name"] == name)
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is None:
            return pod.folder / "volumes" / name
        return self.folder / "claims" / claim

    def _mounts(self, pod: Pod) -> bool:
        """Make the folders of all volumes; False while something to mount is missing."""
        for volume in pod.body["spec"]["volumes"]:
            place = self._volume(pod, volume["name"])
            place.mkdir(parents=True, exist_ok=True)
            for kind, key, plural in (
                ("configMap", "name", "configmaps"),
                ("secret", "secretName", "secrets"),
            ):
                name = (volume.get(kind) or {}).get(key)
                if not name:
                    continue
                if any(place.iterdir()):
                    self._renew(place, plural, name)
                elif not self._fill(place, plural, name):
                    self._event(pod, f'{plural} "{name}" not found')
                    return False
        return True

    def _renew(self, place: Path, plural: str, name: str) -> None:
        """What is mounted follows its object, after a while."""
        mark = place / f".{name}.looked-at"
        if not mark.exists() or time.time() - mark.stat().st_mtime > RENEWED_AFTER:
            self._fill(place, plural, name)

    def _fill(self, place: Path, plural: str, name: str) -> bool:
        try:
            found = self._hand.get(f"{self._base}/{plural}/{name}")
        except LookupError:
            return False
        for key, value in (found.get("data") or {}).items():
            data = value.encode() if plural == "configmaps" else decoded(value)
            part = place / f".{key}.part"
            part.write_bytes(data)
            part.replace(place / key)
        (place / f".{name}.looked-at").touch()
        return True

    def _environment(self, pod: Pod, container: Container) -> dict[str, str]:
        out = {"PATH": os.environ["PATH"]}
        for variable in container.spec.get("env") or ():
            ref = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if ref is None:
                out[variable["name"]] = self._told(pod, container, variable.get("value", ""))
                continue
            with contextlib.suppress(LookupError):
                data = self._hand.get(f"{self._base}/secrets/{ref['name']}").get("data") or {}
                if ref["key"] in data:
                    out[variable["name"]] = decoded(data[ref["key"]]).decode()
        return out

    def _lacks_a_claim(self, body: Body) -> str:
        for volume in body["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and not self._claim(claim):
                return f'persistentvolumeclaim "{claim}" not found'
        return ""

    def _claim(self, name: str) -> Body | None:
        with contextlib.suppress(LookupError):
            return self._hand.get(f"{self._base}/persistentvolumeclaims/{name}")
        return None
