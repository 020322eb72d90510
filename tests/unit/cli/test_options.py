"""The command line: what it is read as, what is refused, and that help is quick and complete."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

from kandev_operator.cli import commands
from kandev_operator.cli.commands import Command, Where
from kandev_operator.cli.options import parse

EVERY = [
    (["prompt", "demo", "go"], commands.Prompt("demo", "go")),
    (
        ["prompt", "demo", "-", "--id", "x", "--no-wait"],
        commands.Prompt("demo", "-", "x", wait=False),
    ),
    (["prompt", "demo", "go", "--timeout", "90s"], commands.Prompt("demo", "go", timeout=90.0)),
    (["logs", "demo"], commands.Logs("demo")),
    (
        ["logs", "-f", "demo", "--since-seq", "12", "--json"],
        commands.Logs("demo", follow=True, since_seq=12, as_json=True),
    ),
    (["resume", "demo"], commands.Resume("demo")),
    (["resume", "demo", "--wait", "--timeout", "5"], commands.Resume("demo", timeout=5.0)),
    (["fresh-start", "demo", "--yes"], commands.FreshStart("demo", yes=True)),
    (["permissions", "demo"], commands.Permissions("demo")),
    (["allow", "demo", "e-p1"], commands.Allow("demo", "e-p1")),
    (["allow", "demo", "e-p1", "--option", "a"], commands.Allow("demo", "e-p1", "a")),
    (["deny", "demo", "e-p1"], commands.Deny("demo", "e-p1")),
    (["cancel", "demo"], commands.Cancel("demo")),
    (["shell", "demo"], commands.Shell("demo")),
    (
        ["shell", "demo", "--name", "t", "--detach-keys", "ctrl-a,x", "--view"],
        commands.Shell("demo", "t", view_only=True, detach_keys=b"\x01x"),
    ),
    (["shell", "demo", "--", "ls", "-l"], commands.Shell("demo", words=["ls", "-l"])),
    (["shell", "demo", "--list"], commands.Shell("demo", listing=True)),
    (["shell", "demo", "--close"], commands.Shell("demo", close=True)),
    (["files", "ls", "demo"], commands.FilesLs("demo")),
    (
        ["files", "ls", "demo", "src", "--depth", "3", "-a", "--json"],
        commands.FilesLs("demo", "src", 3, everything=True, as_json=True),
    ),
    (["files", "get", "demo", "f", "-o", "x"], commands.FilesGet("demo", "f", "x")),
    (["files", "put", "demo", "f", "--overwrite"], commands.FilesPut("demo", "f", overwrite=True)),
    (["git", "status", "demo", "--repo", "lib"], commands.GitStatus("demo", "lib")),
    (
        ["git", "diff", "demo", "f", "--staged", "--base", "main"],
        commands.GitDiff("demo", "f", staged=True, base="main"),
    ),
    (["git", "log", "demo", "-l", "3"], commands.GitLog("demo", limit=3)),
    (["why", "tasksession/demo"], commands.Why("demo")),
    (["why", "ts/demo.v2"], commands.Why("demo.v2")),
    (["jwks"], commands.Jwks()),
    (["export"], commands.Export()),
    (["export", "--secrets"], commands.Export(secrets=True)),
]


@pytest.mark.parametrize(("argv", "command"), EVERY)
def test_a_command_line_is_read(argv: list[str], command: Command) -> None:
    assert parse(argv, {}) == (Where(), command)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("shell --name tests demo -- make -k test", "shell demo --name tests -- make -k test"),
        ("git diff --staged demo src", "git diff demo --staged src"),
        ("git log -l 1 demo src", "git log demo -l 1 src"),
        ("files ls --depth 2 demo src", "files ls demo --depth 2 src"),
        ("files put --overwrite demo a f", "files put demo a --overwrite f"),
        ("prompt --id 7 demo -- --help", "prompt demo --id 7 -- --help"),
    ],
)
def test_options_may_stand_anywhere(before: str, after: str) -> None:
    assert parse(after.split(), {}) == parse(before.split(), {})


def test_every_command_is_among_them() -> None:
    assert {type(command) for _, command in EVERY} == set(commands.Command.__args__)


PLACES = [
    (["-n", "a", "why", "demo"], {}, Where(namespace="a")),
    (["why", "demo", "-n", "a"], {}, Where(namespace="a")),
    (["-n", "a", "why", "demo", "--namespace", "b"], {}, Where(namespace="b")),
    (["why", "demo"], {"KANDEV_NAMESPACE": "a"}, Where(namespace="a")),
    (["why", "demo", "-n", "b"], {"KANDEV_NAMESPACE": "a"}, Where(namespace="b")),
    (["why", "demo"], {"KANDEV_NAMESPACE": "  "}, Where()),
    (
        ["--kubeconfig", "f", "why", "demo", "--context", "c", "--operator-namespace", "o"],
        {},
        Where(kubeconfig="f", context="c", operator_namespace="o"),
    ),
    (
        ["why", "demo"],
        {"KANDEV_KUBECONFIG": "f", "KANDEV_CONTEXT": "c", "KANDEV_OPERATOR_NAMESPACE": "o"},
        Where(kubeconfig="f", context="c", operator_namespace="o"),
    ),
]


@pytest.mark.parametrize(("argv", "environ", "where"), PLACES)
def test_where_it_is_to_be_done(argv: list[str], environ: Mapping[str, str], where: Where) -> None:
    assert parse(argv, environ)[0] == where


WRONG = [
    [],
    ["frobnicate"],
    ["why"],
    ["why", "Demo_1"],
    ["why", "pod/demo"],
    ["why", ""],
    ["prompt", "demo"],
    ["prompt", "demo", "go", "--id", ""],
    ["prompt", "demo", "go", "--id", "x" * 129],
    ["prompt", "demo", "go", "--id", "a\nb"],
    ["prompt", "demo", "go", "--timeout", "0"],
    ["prompt", "demo", "go", "--timeout", "nan"],
    ["resume", "demo", "--timeout", "soon"],
    ["logs", "demo", "--since-seq", "-1"],
    ["logs", "demo", "--since-seq", "9" * 19],
    ["logs", "demo", "--foll"],
    ["allow", "demo"],
    ["jwks", "demo"],
    ["export", "demo"],
]


@pytest.mark.parametrize("argv", WRONG, ids=repr)
def test_wrong_usage_ends_with_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(argv, {})
    assert ended.value.code == 2
    assert "usage: kubectl kandev" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["resume", "demo", "--wiat"], ["logs", "demo", "more"], ["allow", "demo"]], ids=repr
)
def test_wrong_usage_is_told_by_the_command_itself(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(argv, {})
    said = capsys.readouterr().err
    assert said.startswith(f"usage: kubectl kandev {argv[0]} ")
    assert f"kubectl kandev {argv[0]}: error: " in said


@pytest.mark.parametrize("argv", [[], *([command[0][0]] for command in EVERY)], ids=repr)
def test_help_is_everywhere_with_examples(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([*argv, "--help"], {})
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"  kubectl kandev {argv[0] if argv else 'prompt'}" in said.partition("examples:")[2]
    assert "KANDEV_NAMESPACE" in said


def test_help_loads_no_client() -> None:
    heavy = "{'pydantic', 'kubernetes', 'aiohttp', 'rich', 'asyncio', 'jwt'}"
    code = (
        "import sys; from kandev_operator.cli.__main__ import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: sys.exit(repr({heavy} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == "set()"
