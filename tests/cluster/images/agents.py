"""Images with an agent in them, as users of the operator would bring: agentctl is in none of them.

`scripted()` has the scripted agent of `tests/fakes` and a Python that runs it. `scripted_frozen()`
has the same agent as a program of its own and no Python, so whoever runs agentctl there must bring
all that it needs. Each comes with the command that starts its agent.
"""

import shutil
from pathlib import Path

from cluster.images import buildah, debian, oci, product
from cluster.images.cache import Recipe, cached

SCRIPTED_NAME = "localhost/agent-scripted:1"
SCRIPTED_COMMAND = ("python3", "-E", "-S", "/opt/fakes/acp_agent.py")
FROZEN_NAME = "localhost/agent-frozen:1"
FROZEN_COMMAND = ("/opt/acp-agent/acp-agent",)

_HERE = Path(__file__).parent
_FAKES = product.REPOSITORY / "tests/fakes"
_PARTS = (_FAKES / "acp_agent.py", _FAKES / "scripted")


def scripted() -> Path:
    """Return the archive of the image with Python and the scripted agent."""
    return cached(_SCRIPTED)


def scripted_frozen() -> Path:
    """Return the archive of the image with the scripted agent and no Python."""
    return cached(_FROZEN)


def _make_scripted(archive: Path, scratch: Path) -> None:
    root = scratch / "root"
    shutil.copytree(_FAKES / "scripted", root / "scripted", ignore=_without_compiled)
    shutil.copy2(_FAKES / "acp_agent.py", root)
    oci.pack(root, archive, oci.Settings(SCRIPTED_NAME), base=debian.python(), at="/opt/fakes")


def _make_frozen(archive: Path, scratch: Path) -> None:
    # A context of its own: what the project's images must not take in is not in theirs.
    context = scratch / "context"
    shutil.copytree(_FAKES / "scripted", context / "tests/fakes/scripted", ignore=_without_compiled)
    shutil.copy2(_FAKES / "acp_agent.py", context / "tests/fakes")
    (context / "operator/images").mkdir(parents=True)
    shutil.copy2(product.REPOSITORY / "operator/images/agentctl.lock", context / "operator/images")
    base = product.builder("agentctl")
    buildah.build(
        _HERE / "frozen_agent.Dockerfile",
        context,
        archive,
        FROZEN_NAME,
        bases=[base, debian.glibc()],
        arguments={"BUILDER": oci.image_name(base), "BASE": debian.GLIBC_NAME},
    )


_without_compiled = shutil.ignore_patterns("__pycache__")
_SCRIPTED = Recipe(
    "agent-scripted",
    "an image with Python and the scripted agent",
    1,
    _make_scripted,
    [*_PARTS, _HERE / "debian.py", _HERE / "agents.py"],
)
_FROZEN = Recipe(
    "agent-frozen",
    "an image with the scripted agent and no Python",
    2,
    _make_frozen,
    [
        *_PARTS,
        product.REPOSITORY / "operator/images/agentctl.lock",
        *(_HERE / name for name in ("frozen_agent.Dockerfile", "debian.py", "buildah.py")),
        _HERE / "agents.py",
    ],
)
