"""The plugin as a whole: exit codes, streams, keys, why, and an answer typed at a real terminal."""

import asyncio
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kandev_operator.cli.commands import Jwks, Why
from kandev_operator.cli.faults import ExitCode, Fault
from kandev_operator.cli.keys import public
from kandev_operator.cli.options import parse
from kandev_operator.cli.program import run
from kandev_operator.cli.screen import Screen
from unit.cli.bodies import NAME, condition, session_body
from unit.cli.fakeapi import FakeApi
from unit.cli.stage import Stage, kubeconfig, serving


async def ran(config: str, *argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = await run(*parse(["--kubeconfig", config, *argv], {}), Screen(io.StringIO(), out, err))
    return code, out.getvalue(), err.getvalue()


async def test_a_run_from_the_command_line_to_the_exit_code(tmp_path: Path) -> None:
    api = FakeApi()
    api.put("tasksessions", session_body())
    async with serving(api) as server:
        config = kubeconfig(tmp_path, server)
        code, out, err = await ran(config, "why", NAME)
        assert (code, err) == (ExitCode.OK, "")
        assert out.startswith("Session team-a/demo is WAITING_FOR_INPUT.")
        code, out, err = await ran(config, "why", "other")
        assert (code, out) == (ExitCode.FAILED, "")
        assert err.startswith("error: there is no TaskSession other in namespace team-a\n  See ")
        code, _, err = await ran(config, "why", NAME, "-n", "team-b")
        assert "in namespace team-b" in err
        code, _, err = await ran(config, "fresh-start", NAME)
        assert code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "there is no kubeconfig at", id="no file"),
        pytest.param("a: [", "it is not YAML, as line 1 shows", id="not YAML"),
        pytest.param("- a list", "a part of it is missing", id="of another shape"),
        pytest.param("kind: Config", "cannot be used: Invalid kube-config", id="nothing in it"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named_with_its_fault(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    code, _, err = await ran(str(path), "why", NAME)
    assert code == ExitCode.FAILED
    assert err.startswith("error: no cluster can be asked: ")
    assert str(path) in err
    assert words in err
    assert "--kubeconfig FILE" in err


async def test_a_cluster_that_gives_no_answer(tmp_path: Path) -> None:
    code, _, err = await ran(kubeconfig(tmp_path, "http://127.0.0.1:1"), "why", NAME)
    assert code == ExitCode.FAILED
    assert "gives no answer" in err


async def test_why_reads_all_four_objects(stage: Stage) -> None:
    stage.api.put(
        "tasks", {"metadata": {"name": "work"}, "spec": {"title": "t", "closed": "Completed"}}
    )
    stage.api.put(
        "agentprofiles",
        {
            "metadata": {"name": "claude"},
            "spec": {"command": ["claude"], "supportsSessionResume": False},
        },
    )
    stage.api.session["status"]["conditions"] += [
        condition("Reconciling", "True", "Retrying", "the agent said \x1b[2J")
    ]
    await stage.play(Why(NAME))
    for words in (
        "its task is closed",
        "AgentProfile claude forbids",
        "place (LocalStandalone) is ready",
        "What the operator does next",
        "What you can do",
        "    kubectl kandev",
    ):
        assert words in stage.said
    assert "\x1b" not in stage.said


@pytest.mark.parametrize("plural", ["executors", "tasks", "agentprofiles", "secrets"])
async def test_why_needs_no_more_than_the_session(stage: Stage, plural: str) -> None:
    stage.api.forbidden.add(plural)
    assert await stage.play(Why(NAME)) == ExitCode.OK


async def test_the_published_keys_are_enough(stage: Stage) -> None:
    stage.api.forbidden.add("secrets")
    document = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "abc", "kid": "k", "d": "private"}]}
    stage.api.put(
        "configmaps",
        {
            "metadata": {"name": "kandev-agentctl-jwks"},
            "data": {"jwks.json": json.dumps(document)},
        },
        "kandev-system",
    )
    assert await stage.play(Jwks()) == ExitCode.OK
    assert "private" not in stage.said
    assert json.loads(stage.said)["keys"][0]["x"] == "abc"


async def test_the_keys_out_of_the_secret(stage: Stage) -> None:
    assert await stage.play(Jwks()) == ExitCode.OK
    [key] = json.loads(stage.said)["keys"]
    assert key["kid"] == stage.agentctl.key.kid
    assert "d" not in key


async def test_no_right_to_any_key(stage: Stage) -> None:
    stage.api.forbidden |= {"secrets", "configmaps"}
    fault = await stage.refused(Jwks())
    assert any("ConfigMap kandev-agentctl-jwks" in hint for hint in fault.hints)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 3}', "not json"])
def test_what_is_no_document_of_keys(text: str) -> None:
    assert public(text) is None


def test_streams_keep_what_is_said_apart() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(io.StringIO(), out, err)
    screen.stream("half a li")
    screen.stream("ne  ")
    screen.note("beside")
    screen.say("[bold]not markup[/bold] :smile:")
    screen.fault(Fault("it broke", "try this"))
    assert out.getvalue() == "half a line  \n[bold]not markup[/bold] :smile:\n"
    assert err.getvalue() == "beside\nerror: it broke\n  try this\n"


def test_nothing_is_cut_or_wrapped_off_a_terminal() -> None:
    out = io.StringIO()
    Screen(io.StringIO(), out, io.StringIO()).say("word " * 100)
    assert out.getvalue().count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    out = Terminal()
    screen = Screen(io.StringIO(), out, Terminal())
    screen.stream("words", "cyan")
    screen.say("more", "cyan")
    assert ("\x1b[36m" in out.getvalue()) is coloured


@pytest.fixture
def terminal() -> Any:
    master, slave = os.openpty()
    with os.fdopen(master, "r+b", buffering=0) as person, os.fdopen(slave, "r") as stdin:
        yield person, stdin


async def test_an_answer_is_typed(terminal: Any) -> None:
    person, stdin = terminal
    screen = Screen(stdin, io.StringIO(), Terminal())
    assert screen.is_attended
    asking = asyncio.create_task(screen.ask("Well?"))
    await asyncio.sleep(0)
    person.write(b" yes \n")
    assert await asking == "yes"
    asking = asyncio.create_task(screen.ask("Well?"))
    await asyncio.sleep(0)
    person.write(b"\x04")  # end of input
    assert await asking is None


async def test_a_question_is_withdrawn_and_the_next_one_works(terminal: Any) -> None:
    person, stdin = terminal
    screen = Screen(stdin, io.StringIO(), Terminal())
    asking = asyncio.create_task(screen.ask("Well?"))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    asking = asyncio.create_task(screen.ask("And now?"))
    await asyncio.sleep(0)
    person.write(b"1\n")
    assert await asking == "1"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys; from kandev_operator.cli import __main__ as it, program\n"
        "async def run(where, command, screen):\n"
        "    for _ in range(100000): screen.say('x' * 100)\n"
        "    return 0\n"
        "program.run = run\n"
        "sys.exit(it.main(['why', 'demo']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_an_interruption_is_no_traceback() -> None:
    code = (
        "import asyncio, os, signal, sys; from kandev_operator.cli import __main__ as it, program\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def run(where, command, screen):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await asyncio.Event().wait()\n"
        "program.run = run\n"
        "sys.exit(it.main(['why', 'demo']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_request_to_end_is_no_traceback() -> None:
    code = (
        "import asyncio, sys; from kandev_operator.cli import __main__ as it, program\n"
        "async def run(where, command, screen):\n"
        "    asyncio.current_task().cancel()\n"
        "    await asyncio.sleep(60)\n"
        "program.run = run\n"
        "sys.exit(it.main(['why', 'demo']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")


def test_an_output_that_is_full_is_told(tmp_path: Path) -> None:
    code = (
        "import sys; from kandev_operator.cli import __main__ as it, program\n"
        "async def run(where, command, screen):\n"
        "    for _ in range(1000): screen.say('x' * 100)\n"
        "    return 0\n"
        "program.run = run\n"
        "sys.exit(it.main(['why', 'demo']))"
    )
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"error: the output cannot be written: No space left on device\n"
