"""The workspace's own rooms, files and git, put together: served without any agent.

Both resolve paths beneath the same root and share a pool of threads. What git ignores is told to
files here, and the agent's own way to text files to the engine, since no room knows the other.
"""

import os

from starlette.routing import BaseRoute

from kandev_operator.agentctl.beneath import Root
from kandev_operator.agentctl.checks import Checks
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.files.routes import FilesFace, Who
from kandev_operator.agentctl.files.textfiles import TextFiles
from kandev_operator.agentctl.filesystems import is_network
from kandev_operator.agentctl.git.ignores import Ignores
from kandev_operator.agentctl.git.repository import Repositories
from kandev_operator.agentctl.git.routes import GitFace
from kandev_operator.agentctl.pool import Pool


def routes(engine: Engine, checks: Checks) -> list[BaseRoute]:
    """Every path of files and git."""
    root = Root(engine.settings.workspace, engine.settings.state)
    pool = Pool()
    repositories = Repositories(root, pool, os.environ, engine.redactor.hide)
    workspace = engine.settings.workspace
    who = Who(engine.instance_id, engine.boot_id, engine.closing, is_network(workspace))
    files = FilesFace(checks, root, pool, Ignores(repositories), who)
    engine.files = TextFiles(root, pool, files.writer)
    return [*files.routes(), *GitFace(checks, repositories).routes()]
