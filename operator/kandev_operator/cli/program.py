"""One run of the plugin: connect, carry the command out, and turn what went wrong into words.

Imported after the command line was read, because the Kubernetes client takes its time to load.
Every error that is meant for a person ends here as text and an exit code; any other is a bug and
keeps its traceback.
"""

from typing import Final, assert_never

import aiohttp

from kandev_operator.cli import (
    commands,
    exporting,
    files,
    git,
    keys,
    logs,
    permissions,
    prompting,
    resuming,
    shell,
    troubles,
    why,
)
from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.commands import Command, Where
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import Fault
from kandev_operator.cli.reach import DirectReach
from kandev_operator.cli.screen import Screen
from kandev_operator.clients import errors
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.kube import Kube

FIELD_MANAGER: Final = "kubectl-kandev"
"""A person's wish must not look as if the operator had written it."""


async def run(where: Where, command: Command, screen: Screen) -> int:
    """Carry a command out; gives the exit code."""
    try:
        async with (
            await Kube.connect(
                where.kubeconfig, where.context, field_manager=FIELD_MANAGER
            ) as kube,
            open_session() as http,
        ):
            return await carry_out(desk_for(where, kube, http, screen), command)
    except errors.KubeError as error:
        fault = troubles.of_cluster(error)
    except Fault as raised:
        fault = raised
    screen.end_line()
    screen.fault(fault)
    return fault.code


def desk_for(where: Where, kube: Kube, http: aiohttp.ClientSession, screen: Screen) -> Desk:
    """What the commands work with."""
    cluster = Cluster(kube, where.namespace)
    reach = DirectReach(cluster, http, where.operator_namespace)
    return Desk(cluster, reach, screen, where.operator_namespace)


async def carry_out(desk: Desk, command: Command) -> int:
    """Hand the command to whoever carries it out."""
    match command:
        case commands.Prompt():
            return await prompting.prompt(desk, command)
        case commands.Logs():
            return await logs.logs(desk, command)
        case commands.Resume():
            return await resuming.resume(desk, command)
        case commands.FreshStart():
            return await resuming.fresh_start(desk, command)
        case commands.Permissions() | commands.Allow() | commands.Deny() | commands.Cancel():
            return await permissions.of_a_turn(desk, command)
        case commands.Shell():
            return await shell.shell(desk, command)
        case commands.FilesLs() | commands.FilesGet() | commands.FilesPut():
            return await files.files(desk, command)
        case commands.GitStatus() | commands.GitDiff() | commands.GitLog():
            return await git.git(desk, command)
        case commands.Why():
            return await why.why(desk, command)
        case commands.Jwks():
            return await keys.jwks(desk)
        case commands.Export():
            return await exporting.export(desk, command)
        case _:
            assert_never(command)
