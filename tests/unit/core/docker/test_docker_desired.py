"""What containers are made from, and how the engine's answers are read."""

from typing import Any

import pytest

from builders import a_profile, a_session, a_task, an_executor, uid_of
from kandev_operator.api.agent import EnvVar, Resources, SecretKeyRef
from kandev_operator.api.executor import LocalDockerRuntime, Runtime
from kandev_operator.api.profile import AgentProfile
from kandev_operator.core.actions import ContainerWanted
from kandev_operator.core.containerseen import DockerContainer, Step, VolumeSeen
from kandev_operator.core.docker import quantities
from kandev_operator.core.docker.desired import desired, shape_of, steps
from kandev_operator.core.observed import Platform
from kandev_operator.core.pods.desired import Wanted


def wanted(
    profile: AgentProfile | None = None,
    platform: Platform | None = None,
    workspace: Any = None,
    **block: Any,
) -> Wanted:
    spec = {"local_docker": LocalDockerRuntime(**block)}
    session = a_session(spec={"workspace": workspace} if workspace else None)
    return Wanted(
        an_executor(runtime=Runtime.LOCAL_DOCKER, spec=spec),
        session,
        a_task(),
        profile or a_profile(image="agents/claude:1"),
        platform or Platform(),
    )


def the_agent(number: int = 1, **given: Any) -> ContainerWanted:
    return desired(wanted(**given), Step.AGENT, f"{uid_of('ex-a')}-{number}", "sha256:a")


def mounts(container: ContainerWanted) -> dict[str, Any]:
    return {each["Target"]: each for each in container.config["HostConfig"]["Mounts"]}


def test_it_may_do_no_more_than_it_needs() -> None:
    host = the_agent().config["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["RestartPolicy"] == {"Name": "no"}
    assert the_agent().config["User"] == "1000:1000"
    assert "User" not in the_agent(platform=Platform(user=None)).config


def test_agentctl_is_published_on_the_loopback_alone() -> None:
    bindings = the_agent().config["HostConfig"]["PortBindings"]
    assert bindings == {"8700/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    other = the_agent(port=9000)
    assert list(other.config["HostConfig"]["PortBindings"]) == ["9000/tcp"]
    assert "--port=9000" in other.config["Cmd"]
    by_address = the_agent(platform=Platform(docker_by_address=True))
    assert "PortBindings" not in by_address.config["HostConfig"]


def test_the_same_files_in_every_container_of_the_session() -> None:
    first, second = the_agent(1), the_agent(2)
    assert first.name != second.name
    assert mounts(first)["/workspace"] == mounts(second)["/workspace"]
    assert mounts(first)["/workspace"]["Type"] == "volume"
    bound = the_agent(workspace_path="/srv/one")
    assert mounts(bound)["/workspace"]["Source"] == "/srv/one"
    assert mounts(bound)["/workspace"]["Type"] == "bind"
    assert [name for name, _ in bound.volumes] == [mounts(bound)["/kandev"]["Source"]]
    install = desired(wanted(workspace_path="/srv/one"), Step.INSTALL, "i-1", "sha256:a")
    assert install.folders == ("/target",), "a folder of the user's own keeps its owner"


def test_another_agentctl_image_has_another_volume() -> None:
    one = desired(wanted(), Step.AGENT, "i-1", "sha256:a")
    other = desired(wanted(), Step.AGENT, "i-1", "sha256:b")
    assert mounts(one)["/kandev"]["Source"] != mounts(other)["/kandev"]["Source"]
    assert mounts(one)["/kandev"]["ReadOnly"] is True


def test_no_secret_is_in_a_containers_description() -> None:
    env = (
        EnvVar(name="PLAIN", value="yes"),
        EnvVar(name="KEY", secret_key_ref=SecretKeyRef(name="keys", key="k")),
        EnvVar(name="KANDEV_STATE", value="/elsewhere"),
    )
    told = the_agent(profile=a_profile(image="i", env=env)).config["Env"]
    assert "PLAIN=yes" in told
    assert not [each for each in told if each.startswith(("KEY=", "KANDEV_STATE="))]


def test_limits_are_the_profiles() -> None:
    resources = Resources(limits={"memory": "512Mi", "cpu": "500m"})
    host = the_agent(profile=a_profile(image="i", resources=resources)).config["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (536870912, 536870912)
    assert host["NanoCpus"] == 500_000_000


@pytest.mark.parametrize(
    ("quantity", "whole", "nano"),
    [
        ("1Gi", 1073741824, 1073741824 * 10**9),
        ("1.5", 1, 1_500_000_000),
        (2, 2, 2_000_000_000),
        ("250m", None, 250_000_000),
        ("1k", 1000, 10**12),
        ("lots", None, None),
        (None, None, None),
        ("0", None, None),
    ],
)
def test_quantities(quantity: Any, whole: int | None, nano: int | None) -> None:
    assert (quantities.whole(quantity), quantities.nano(quantity)) == (whole, nano)


def test_the_shape_tells_another_template_from_another_instance() -> None:
    assert shape_of(the_agent(1)) == shape_of(the_agent(2))
    assert shape_of(the_agent(image="other")) != shape_of(the_agent())


def test_repositories_are_cloned_only_where_there_are_some() -> None:
    assert steps(wanted()) == (Step.INSTALL, Step.AGENT)


def test_an_inspection_is_read() -> None:
    labels = the_agent().config["Labels"]
    body = {
        "Id": "c1",
        "Name": "/ex-a-1",
        "Config": {"Labels": labels},
        "State": {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "Error": ""},
        "NetworkSettings": {
            "IPAddress": "",
            "Networks": {"agents": {"IPAddress": "172.18.0.2"}},
            "Ports": {
                "8700/tcp": [
                    {"HostIp": "127.0.0.1", "HostPort": "49153"},
                    {"HostIp": "192.0.2.7", "HostPort": "8700"},
                ],
                "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}],
                "9000/tcp": None,
            },
        },
    }
    seen = DockerContainer.from_body(body, "first\nlast words")
    assert (seen.name, seen.step, seen.session_uid) == ("ex-a-1", "agent", uid_of("s-a"))
    assert (seen.is_over, seen.is_up, seen.oom_killed) == (True, False, True)
    assert (seen.address, seen.published) == ("172.18.0.2", ((8700, 49153),))
    assert seen.words == "first last words"
    bare = DockerContainer.from_body({"Id": "c2"})
    assert (bare.state, bare.published, bare.instance_id) == ("", (), "")


def test_a_volume_tells_whose_it_is() -> None:
    files = next(dict(each) for name, each in the_agent().volumes if "files" in name)
    seen = VolumeSeen.from_body({"Name": "v", "Labels": files})
    assert (seen.role, seen.session_uid, seen.policy) == ("files", uid_of("s-a"), "Delete")
    assert VolumeSeen.from_body({"Name": "v", "Labels": None}).policy == "Retain"
