"""`kubectl kandev shell` as a person sits before it: a real terminal, a real agentctl, no agent.

The API server is a small one; the line to agentctl goes through a proxy that breaks it.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.agentctl.harness import AUDIENCE, Keys, Sidecar, eventually
from integration.agentctl.shellclient import shells, viewing
from kandev_operator.cli.commands import OPERATOR_NAMESPACE
from kandev_operator.clients.tokens import SigningKey
from stage.person import Person
from stage.tcpproxy import TcpProxy
from unit.cli.bodies import executor_body, session_body
from unit.cli.fakeapi import FakeApi
from unit.cli.stage import kubeconfig, serving, signing_secret

SCRIPT = Path(sys.executable).with_name("kubectl-kandev")
REMOTE = {"runtime": "Remote", "remote": {"url": "https://build-7.example", "audience": AUDIENCE}}


@dataclass
class Place:
    """A session that is bound to an agentctl, and how to sit down before it."""

    api: FakeApi
    sidecar: Sidecar
    line: TcpProxy
    environment: dict[str, str]

    def person(self, *arguments: str, size: tuple[int, int] = (80, 24)) -> Person:
        return Person([str(SCRIPT), "shell", "demo", *arguments], self.environment, size)

    def bind(self, port: int) -> None:
        status = {"instanceId": self.sidecar.run["instance_id"]}
        self.api.put("executors", executor_body(f"http://127.0.0.1:{port}", REMOTE, **status))


def trusting(folder: Path, key: SigningKey) -> Sidecar:
    """An agentctl that knows the operator's key."""
    folder.mkdir(exist_ok=True)
    keys = Keys(folder / "jwks.json")
    content = json.loads(keys.path.read_text())
    content["keys"].append(key.jwk())
    keys.path.write_text(json.dumps(content))
    return Sidecar(folder, keys).start()


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture
def sidecar(tmp_path: Path, key: SigningKey) -> Iterator[Sidecar]:
    sidecar = trusting(tmp_path / "agentctl", key)
    yield sidecar
    sidecar.close()


@asynccontextmanager
async def placed(folder: Path, key: SigningKey, sidecar: Sidecar) -> AsyncIterator[Place]:
    api = FakeApi()
    api.put("tasksessions", session_body())
    api.put("secrets", signing_secret(key), OPERATOR_NAMESPACE)
    with TcpProxy(sidecar.run["port"]) as line:
        async with serving(api) as server:
            config = {"KUBECONFIG": kubeconfig(folder, server), "NO_COLOR": "1"}
            place = Place(api, sidecar, line, {**os.environ, **config})
            place.bind(line.port)
            yield place


@pytest.fixture
async def place(tmp_path: Path, key: SigningKey, sidecar: Sidecar) -> AsyncIterator[Place]:
    async with placed(tmp_path, key, sidecar) as place:
        yield place


async def test_a_terminal_is_typed_into_resized_and_left_by_its_end(place: Place) -> None:
    with place.person(size=(100, 30)) as person:
        await person.sees("made")
        await person.runs("stty size; tty; echo $HOME", "mark-one")
        await person.sees("30 100\r\n")
        assert person.is_raw
        person.resize(90, 20)
        await person.until(lambda: shells(place.sidecar)[0]["cols"] == 90, "it is resized")
        await person.runs("stty size", "mark-two")
        await person.sees("20 90\r\n")
        person.types("exit 42\r")
        assert await person.ends() == 42
        assert not person.is_raw


async def test_keys_that_would_stop_the_plugin_go_to_the_shell(place: Place) -> None:
    # Some shells' `read` ends with a trapped signal: it is asked again.
    traps = "trap 'echo caught' INT; trap '' TSTP QUIT; echo set; until read x; do :; done; exit 9"
    with place.person("--", "sh", "-c", traps) as me:
        await me.sees("set")
        me.types("\x03")
        await me.sees("caught")
        me.types("\x1a\x1c\r")
        assert await me.ends() == 9


async def test_killed_by_a_signal_is_an_exit_code_too(place: Place) -> None:
    with place.person("--", "sh", "-c", "kill -TERM $$") as person:
        assert await person.ends() == 128 + signal.SIGTERM


async def test_who_leaves_finds_it_again_with_what_was_shown(place: Place) -> None:
    with place.person() as person:
        await person.runs("export KEPT=yes", "mark-one")
        person.types("\x1dd")
        assert await person.ends() == 0
        await person.sees("kubectl kandev shell demo")
        assert not person.is_raw
    assert shells(place.sidecar)[0]["exit"] is None
    with place.person("--detach-keys", "ctrl-a,q") as person:
        await person.sees("found")
        await person.sees("mark-one")
        await person.runs("echo $KEPT-indeed", "mark-two")
        await person.sees("yes-indeed")
        person.types("\x01q")
        assert await person.ends() == 0


async def test_a_broken_line_is_made_anew_and_nothing_is_lost_or_doubled(place: Place) -> None:
    with place.person() as person:
        await person.runs("true", "mark-one")
        person.types("for n in $(seq 300); do echo line-$n-; sleep 0.01; done; echo do''ne\r")
        await person.sees("line-20-")
        place.line.reset()
        await person.sees("the line to the shell is lost")
        person.types("echo typed-while-away\r")
        await person.until(lambda: shows_all(place), "the shell goes on")
        place.line.heal()
        await person.sees("the line is back")
        await person.sees("done\r\n")
        for number in range(1, 301):
            assert person.shown.count(b"line-%d-\r\n" % number) == 1, number
        await person.runs("true", "mark-two")
        assert b"typed-while-away" not in person.shown, "it went nowhere"


def shows_all(place: Place) -> bool:
    with viewing(place.sidecar, shells(place.sidecar)[0]["shell_id"]) as viewer:
        viewer.hears("attached")
        viewer.sees("line-300-")
    return True


async def test_b032_a_shell_that_was_replaced_is_said_to_be_gone(
    place: Place, tmp_path: Path, key: SigningKey
) -> None:
    with place.person() as person:
        await person.runs("true", "mark-one")
        place.sidecar.kill()
        await person.sees("the line to the shell is lost")
        replaced = trusting(tmp_path / "replaced", key)
        try:
            place.sidecar = replaced
            place.bind(replaced.run["port"])
            person.types("touch keystroke-of-another-time\r")
            assert await person.ends() == 3
            assert b"the shell is gone" in person.shown
            assert not person.is_raw
            assert shells(replaced) == [], "none was made in silence"
            with place.person() as again:
                await again.sees("made")
                await again.runs("ls", "mark-two")
                assert b"keystroke-of-another-time" not in again.shown
        finally:
            replaced.close()


async def test_two_people_before_one_shell(place: Place) -> None:
    with place.person("--view") as nobody:
        assert await nobody.ends() == 3
        await nobody.sees("no shell main that runs, and --view makes none")
    assert shells(place.sidecar) == []
    with place.person() as one:
        await one.runs("true", "mark-zero")
        await _looked_at(place, one)


async def _looked_at(place: Place, one: Person) -> None:
    with place.person("--view") as two:
        await one.runs("true", "mark-one")
        await two.sees("mark-one")
        two.types("echo not-this\r")
        await one.runs("true", "mark-two")
        await two.sees("mark-two")
        assert b"not-this" not in one.shown
        two.types("\x1dd")
        assert await two.ends() == 0
        await one.runs("true", "mark-three")


async def test_a_plugin_that_is_told_to_end_gives_the_terminal_back(place: Place) -> None:
    with place.person() as person:
        await person.runs("true", "mark-one")
        person.kill(signal.SIGTERM)
        assert await person.ends() != 0
        assert not person.is_raw
    eventually(lambda: shells(place.sidecar)[0]["viewers"] == 0, "it is gone")
    assert shells(place.sidecar)[0]["exit"] is None


async def test_shells_are_listed_and_closed(place: Place) -> None:
    with place.person("--name", "left") as person:
        await person.runs("true", "mark-one")
        person.types("\x1dd")
        assert await person.ends() == 0
    with place.person("--list") as person:
        assert await person.ends() == 0
        assert b"left  running, 0 looking" in person.shown
    with place.person("--name", "left", "--close") as person:
        assert await person.ends() == 0
    assert shells(place.sidecar) == []
    with place.person("--name", "left", "--close") as person:
        assert await person.ends() == 3


async def test_a_command_that_cannot_run_is_said_plainly(place: Place) -> None:
    with place.person("--", "no-such-command") as person:
        assert await person.ends() == 1
        assert b"the shell's command is not found" in person.shown
        assert not person.is_raw
