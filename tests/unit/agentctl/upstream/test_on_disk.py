"""What must survive a restart beside the journal: the token, and what is known of the process."""

from pathlib import Path

import pytest

from kandev_operator.agentctl.upstream.credentials import Credentials
from kandev_operator.agentctl.upstream.record import Record, Records
from kandev_operator.contract.agent import PermissionPolicy
from kandev_operator.contract.status import Capabilities

pytestmark = pytest.mark.unit
URL = "http://127.0.0.1:39429"


def test_a_token_is_for_one_upstream_and_for_nobody_elses_eyes(tmp_path: Path) -> None:
    it = Credentials(tmp_path, URL, None)
    assert (it.token, it.nonce()) == (None, None)
    it.keep("very-secret")
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert Credentials(tmp_path, URL, None).token == "very-secret"
    assert Credentials(tmp_path, "http://elsewhere:1", None).token is None
    assert "very-secret" not in repr(it)


def test_a_nonce_is_read_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "nonce"
    it = Credentials(tmp_path, URL, file)
    assert it.nonce() is None
    file.write_text("one\n")
    assert it.nonce() == "one"
    file.write_bytes(b"\xff\n")
    assert it.nonce() is None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"url": 1}', b"\xff", b'{"token": ["x"]}'])
def test_a_token_file_that_is_broken_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "upstream-token.json").write_bytes(content)
    assert Credentials(tmp_path, URL, None).token is None


RECORD = Record(
    "x1",
    "instance-1",
    4711,
    "hash",
    PermissionPolicy.ASK,
    Capabilities(load_session=True),
    "very-secret-session",
    {"modes": {"currentModeId": "plan"}},
)


def test_a_record_comes_back_whole_and_is_forgotten_for_good(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.keep(RECORD)
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert Records(tmp_path).now == RECORD
    assert "very-secret-session" not in repr(RECORD)
    records.learn(conversation="another")
    assert Records(tmp_path).now.conversation == "another"  # type: ignore[union-attr]
    records.forget()
    assert Records(tmp_path).now is None
    records.learn(conversation="late")
    assert Records(tmp_path).now is None, "of a process that is gone nothing is learned"


@pytest.mark.parametrize(
    "content", ["", "{}", '{"execution_id": "x", "pid": "?"}', '{"policy": "Never"}']
)
def test_a_record_that_is_broken_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "upstream.json").write_text(content)
    assert Records(tmp_path).now is None
