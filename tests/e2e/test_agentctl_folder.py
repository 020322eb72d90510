"""agentctl as one folder: put into a volume by an init container, it runs in whatever image is.

The main container's image has an agent and no Python. What agentctl brings for itself, its C
library above all, must not reach the agent.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.images import agents
from integration.agentctl import shellclient
from integration.agentctl.harness import AUDIENCE, Keys, Sidecar
from integration.agentctl.workbench import Bench
from stage.pods import Mount, Pods, container, exit_code, fetch, restricted

PORT = 8811
TOOLS = "/kandev/agentctl"
AGENTCTL = [
    f"{TOOLS}/_internal/ld-linux.so.2",
    "--library-path",
    f"{TOOLS}/_internal",
    f"{TOOLS}/kandev-agentctl",
]
MEGABYTE = 1_000_000
FOLDER_LIMIT = 60 * MEGABYTE
PATIENCE = 60.0


Talking = Callable[[str], Sidecar]


@pytest.fixture
def talk_to(pods: Pods, tmp_path: Path) -> Iterator[Talking]:
    """The harness of agentctl's own tests, on a pod's agentctl; its keys are in the cluster."""
    keys = Keys(tmp_path / "jwks.json")
    data = {"jwks.json": keys.path.read_text()}
    pods.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"}, "data": data}
    )
    pods.claim("workspace")
    made: list[Sidecar] = []

    def talk(name: str) -> Sidecar:
        sidecar = Sidecar(tmp_path, keys)
        sidecar.run = {"url": f"http://{pods.address(name)}:{PORT}"}
        made.append(sidecar)
        return sidecar

    yield talk
    for sidecar in made:
        sidecar.http.close()


def session_pod(name: str, agentctl_image: str, image: str) -> dict[str, object]:
    """A pod as the operator would make it, by hand."""
    tools = Mount("tools", "/target")
    install = container("agentctl", agentctl_image, [], mounts=[tools])
    # The image's own entrypoint, told what to do.
    del install["command"]
    install["args"] = ["install", "/target"]
    # agentctl makes its state, but the folder to work in is there before it: a clone, usually.
    workspace = Mount("workspace", "/workspace", "workspace")
    prepare = container("prepare", image, ["mkdir", "-p", "/workspace/files"], mounts=[workspace])
    run = ["run", "--state=/workspace/state", "--workspace=/workspace/files"]
    run += [f"--audience={AUDIENCE}", "--jwks=/keys/jwks.json", "--host=0.0.0.0", f"--port={PORT}"]
    pod = restricted(
        name,
        image,
        [*AGENTCTL, *run],
        mounts=[
            Mount("tools", "/kandev"),
            workspace,
            Mount("tmp", "/tmp"),
        ],
        init=[install, prepare],
        # What an image of a user's may say for its own programs.
        env={"LD_LIBRARY_PATH": "/opt/theirs"},
    )
    main = pod["spec"]["containers"][0]
    main["readinessProbe"] = {
        "httpGet": {"path": "/health", "port": PORT},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
    }
    pod["spec"]["volumes"].append({"name": "keys", "configMap": {"name": "keys"}})
    main["volumeMounts"].append({"name": "keys", "mountPath": "/keys", "readOnly": True})
    return pod


def test_agentctl_runs_an_agent_in_an_image_without_python(
    pods: Pods, agentctl_image: str, frozen_agent_image: str, talk_to: Talking
) -> None:
    pods.apply(session_pod("session", agentctl_image, frozen_agent_image))
    pods.wait_ready("session")
    code, body = fetch(pods.address("session"), PORT, "/health")
    assert code == 200
    assert json.loads(body)["status"] == "ok"
    talk = talk_to("session")
    talk.put(command=agents.FROZEN_COMMAND[0], args=["--log", "/workspace/diary"])
    talk.succeeded(talk.open())
    assert talk.say("hello")["outcome"] == "completed"
    # Nothing that agentctl was started with is left for a program of the image to trip over. (The
    # agent was frozen too, and has a library path of its own.)
    pid = talk.agent_pid()
    for name in ("environ", "maps"):
        assert TOOLS not in pods.execute("session", "cat", f"/proc/{pid}/{name}")


def test_a_shell_and_git_are_the_images_own(
    pods: Pods, agentctl_image: str, frozen_agent_image: str, talk_to: Talking
) -> None:
    pods.apply(session_pod("session", agentctl_image, frozen_agent_image))
    pods.wait_ready("session")
    talk = talk_to("session")
    shell = shellclient.make(talk)
    with shellclient.viewing(talk, shell["shell_id"]) as viewer:
        viewer.runs(
            "git init -q . && touch new-file && git -c color.ui=never status --short", "was-done"
        )
        viewer.sees("?? new-file")
        viewer.runs("env; cat /proc/self/maps", "was-shown")
        shown = viewer.seen.decode(errors="replace")
    assert "LD_LIBRARY_PATH" not in shown
    assert TOOLS not in shown
    assert "new-file" in json.dumps(Bench(talk).status())


def test_a_conversation_goes_on_in_the_next_pod(
    pods: Pods, agentctl_image: str, frozen_agent_image: str, talk_to: Talking
) -> None:
    pods.apply(session_pod("first", agentctl_image, frozen_agent_image))
    pods.wait_ready("first")
    talk = talk_to("first")
    talk.put(command=agents.FROZEN_COMMAND[0], args=[])
    talk.succeeded(talk.open())
    talk.say("remember the blue door")
    token = talk.token()
    pods.delete("first")
    pods.apply(session_pod("second", agentctl_image, frozen_agent_image))
    pods.wait_ready("second")
    again = talk_to("second")
    again.put(command=agents.FROZEN_COMMAND[0], args=[])
    again.succeeded(again.open("resume", token))
    again.say("what did I say?")
    assert "remember the blue door" in again.said()


def test_the_folder_is_small_and_asks_for_no_library_of_the_image(
    agentctl_folder: Path,
) -> None:
    files = [
        path for path in agentctl_folder.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    size = sum(path.stat().st_size for path in files)
    assert size <= FOLDER_LIMIT, f"{size / MEGABYTE:.1f} MB"
    own = {path.name for path in files}
    for path in files:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", said.stdout))
        needed.discard("ld-linux-x86-64.so.2")  # the loader itself, which is in memory already
        assert needed <= own, f"{path.name} needs {needed - own}"


def test_the_folder_runs_where_there_is_no_c_library_at_all(
    agentctl_folder: Path, tmp_path: Path
) -> None:
    """What musl, an older glibc and an empty image have in common: not our glibc."""
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    shutil.copytree(agentctl_folder, root / TOOLS.removeprefix("/"), symlinks=True)
    # A mount namespace of its own, which takes the mount away with it.
    words = 'mount -t proc proc "$1/proc" && exec chroot "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", words, "sh", root, *AGENTCTL, "run", "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "--workspace" in done.stdout


def test_installing_twice_leaves_what_runs_alone(pods: Pods, agentctl_image: str) -> None:
    mounts = [Mount("tools", "/target")]
    steps = []
    for name in ("once", "twice"):
        step = container(name, agentctl_image, [], mounts=mounts)
        del step["command"]
        step["args"] = ["install", "/target"]
        steps.append(step)
    command = [word.replace("/kandev", "/target", 1) for word in AGENTCTL]
    pod = restricted(
        "installer", agentctl_image, [*command, "run", "--help"], mounts=mounts, init=steps
    )
    pods.apply(pod)
    assert exit_code(pods.wait_ended("installer")) == 0
    assert "--workspace" in pods.logs("installer")


def test_a_folder_that_cannot_be_written_is_named(pods: Pods, agentctl_image: str) -> None:
    step = container("step", agentctl_image, [])
    del step["command"]
    step["args"] = ["install", "/nowhere"]
    pods.apply(restricted("refused", agentctl_image, AGENTCTL, init=[step]))
    pods.wait_ended("refused")
    said = pods.logs("refused", "step")
    assert said.startswith("kandev-agentctl: cannot be installed into /nowhere")
    assert "Traceback" not in said
