"""Images with a real coding agent in them, as its users would make them: no agentctl, no settings.

`image(name)` packs the npm package that the tests keep in the user's cache on top of a small Debian
and, where the agent is a script, a Node. `in_image(name)` is that agent as it is started there.
Where its model is, and which keys it has, is for whoever starts it.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from cluster.images import debian, oci
from cluster.images.cache import Recipe, cached
from fakes.node_tools import NODE_WHEEL_VERSION, find_node, node_from_wheel
from fakes.real_agents import RECIPES, RealAgent, install

_NODE_NAME = "localhost/node:1"
_NODE = "/opt/node/bin"
_MODULES = "/opt/agent/node_modules"
_PATH = f"{_NODE}:/usr/local/bin:/usr/bin:/bin"
_HERE = Path(__file__).parent
_SOURCES = (_HERE / "realagents.py", _HERE / "debian.py")


def image(name: str) -> Path:
    """Return the archive of the image with this agent in it."""
    recipe = RECIPES[name]
    return cached(
        Recipe(
            f"agent-{name}",
            f"an image with {name}",
            1,
            lambda archive, scratch: _make(name, archive),
            [recipe.package, recipe.version, *recipe.start, NODE_WHEEL_VERSION, *_SOURCES],
        )
    )


def in_image(name: str) -> RealAgent:
    """Return the agent with the command and the PATH that it has in its image."""
    agent = install(name)
    places = {str(agent.modules): _MODULES, str(Path(find_node().node).parent): _NODE}
    command = []
    for word in agent.command:
        for here, there in places.items():
            word = word.replace(f"{here}/", f"{there}/")
        command.append(word)
    return replace(agent, command=tuple(command), path=_PATH)


def _make(name: str, archive: Path) -> None:
    agent = install(name)
    program = Path(next(word for word in agent.command if word.startswith(f"{agent.modules}/")))
    # Where npm brought several builds of one program, the image has the one that is started.
    package = RECIPES[name].start[0].partition("/")[0]
    chosen = program.relative_to(agent.modules).parts[0] if "*" in package else ""
    is_script = program.suffix == ".js"
    oci.pack(
        agent.modules / chosen,
        archive,
        oci.Settings(f"localhost/agent-{name}:1", environment={"PATH": _PATH}),
        base=_node() if is_script else debian.glibc(),
        at=str(Path(_MODULES, chosen)),
    )


def _node() -> Path:
    # The image to build in is the smallest that has a C++ library.
    ingredients = [NODE_WHEEL_VERSION, debian.TOOLS_NAME, *_SOURCES]
    return cached(Recipe("node", "an image with Node", 1, _make_node, ingredients))


def _make_node(archive: Path, scratch: Path) -> None:
    root = scratch / "root"
    root.mkdir()
    shutil.copy2(node_from_wheel() / "bin/node", root / "node")
    oci.pack(root, archive, oci.Settings(_NODE_NAME), base=debian.tools(), at=_NODE)
