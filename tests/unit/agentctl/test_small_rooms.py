"""Redaction, file systems, options, environments, folders: the rooms of one idea each."""

from pathlib import Path

import pytest

from kandev_operator.agentctl import filesystems, settings
from kandev_operator.agentctl.process import Tail, environment
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.statedir import AlreadyRunning, StateDir

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:25 / /data rw - nfs4 server:/x rw
31 30 8:2 / /data/local rw - xfs /dev/sdb rw
32 22 0:9 / /mnt/my\\040disk rw - fuse.sshfs host:/ rw
33 22 0:9 / /mnt/over rw - fuse.fuse-overlayfs none rw
34 22 0:9 / /mnt/unnamed rw - fuse /export rw
35 22 0:9 / /mnt/guest rw - virtiofs tag rw
"""


@pytest.mark.parametrize(
    ("folder", "network"),
    [
        ("/", False),
        ("/home/x", False),
        ("/data", True),
        ("/data/state", True),
        ("/database", False),
        ("/data/local/state", False),
        ("/mnt/my disk/x", True),
        ("/mnt/over", False),
        ("/mnt/unnamed", True),
        ("/mnt/guest", True),
    ],
)
def test_network_file_systems_are_known_by_their_mount(folder: str, network: bool) -> None:
    assert filesystems.is_network(Path(folder), MOUNTS) is network


def test_secrets_are_hidden_and_plain_values_stay() -> None:
    redactor = Redactor()
    redactor.learn_env({"API_KEY": "sk-12345678", "MODEL": "big-model", "MY_TOKEN": "abc"})
    redactor.learn_tokens(["ses_12345", "ses_12345678", ""])
    text = redactor.hide("sk-12345678 used big-model in ses_12345678, ses_12345; abc")
    assert text == "[redacted] used big-model in [redacted], [redacted]; abc"


def test_B061_a_token_is_hidden_however_it_is_quoted() -> None:
    redactor = Redactor()
    redactor.learn_tokens(['../é"token\n'])
    for quoted in ('../é"token\n', '../é"token', '../é\\"token\\n', '../\\u00e9\\"token\\n'):
        assert redactor.hide(f"no rollout <{quoted}> found") == "no rollout <[redacted]> found"


def test_the_secrets_of_the_agent_that_still_runs_stay_hidden() -> None:
    redactor = Redactor()
    redactor.learn_env({"KEY": "older-secret"})
    redactor.learn_env({"KEY": "newer-secret"})
    redactor.learn_env({"KEY": "newer-secret"})
    assert redactor.hide("older-secret newer-secret") == "[redacted] [redacted]"


def test_the_tail_is_bounded_and_hides_before_it_cuts() -> None:
    redactor = Redactor()
    redactor.learn_env({"KEY": "secret-value"})
    tail = Tail(redactor.hide)
    for _ in range(1000):
        tail.add(b"noise " * 20)
    tail.add(b"secret-")
    tail.add(b"value" + b"z" * 1995)
    text = tail.text()
    assert len(text) <= 2000
    assert "value" not in text
    assert text.endswith("zzz")


def test_the_agent_gets_what_it_was_told_over_a_small_base() -> None:
    own = {"PATH": "/bin", "KANDEV_JWKS": "x", "AWS_SECRET": "y", "LANG": "C", "HOME": "/root"}
    found = environment(own, {"LANG": "de", "A": "b"}, Path("/h"), {"KANDEV_STATE": "/s"})
    assert found == {
        "PATH": "/bin",
        "LANG": "de",
        "A": "b",
        "HOME": "/h",
        "KANDEV_STATE": "/s",
    }
    assert environment({}, {"HOME": "/told"}, Path("/h"), {})["HOME"] == "/told"
    assert (
        environment({}, {"KANDEV_STATE": "x"}, Path("/h"), {"KANDEV_STATE": "/s"})["KANDEV_STATE"]
        == "/s"
    )


REQUIRED = ["--state", "s", "--workspace", "w", "--audience", "a", "--jwks", "j"]


def test_options_from_line_and_environment() -> None:
    told = settings.read(["run", *REQUIRED], {"KANDEV_PORT": "8080", "KANDEV_DETACH": "1"})
    assert (told.port, told.detach, told.host) == (8080, True, "127.0.0.1")
    assert told.state.is_absolute()
    told = settings.read(["run", *REQUIRED, "--port", "1"], {"KANDEV_PORT": "8080"})
    assert (told.port, told.detach) == (1, False)


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings.read(["run", "--state", "s"], {})
    assert "--audience" in capsys.readouterr().err


@pytest.mark.parametrize("session_id", ["../../etc", ".", "a/b", "", "ü", "~x", "x" * 128])
def test_no_session_id_leaves_the_state_folder(tmp_path: Path, session_id: str) -> None:
    path = StateDir(tmp_path).folder(session_id).path
    assert path.resolve().parent == (tmp_path / "sessions").resolve()


def test_one_owner(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    first.own()
    with pytest.raises(AlreadyRunning):
        StateDir(tmp_path).own()
    assert first.instance_id() == StateDir(tmp_path).instance_id()


def test_adoption_wants_the_same_name(tmp_path: Path) -> None:
    states = StateDir(tmp_path)
    old = states.prepare("old", "ns", "a", None)
    (old.path / "journal.db").write_text("history")
    assert not (states.prepare("new", "ns", "b", "old").path / "journal.db").exists()
    adopted = states.prepare("newer", "ns", "a", "old")
    assert (adopted.path / "journal.db").read_text() == "history"
    assert adopted.marker() == {"session_id": "newer", "namespace": "ns", "name": "a"}
    assert not old.path.exists()
