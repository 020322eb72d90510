"""Real coding agents for tests and the demo: pinned, from npm, and run without any key.

It answers how each agent is installed, started and pointed at a model server, and what it needs
to work with its real provider instead. It refuses to judge them: what they are seen to do is in
the tests. Run it to fill the cache:

    python -m fakes.real_agents install NAME ...|all
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fakes.node_tools import InstallError, find_node, install_npm_package

MODEL = "scripted"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is known of an agent before it is installed; {url} is the model server's."""

    package: str
    version: str
    start: tuple[str, ...]  # the program below node_modules, then its arguments
    always: Mapping[str, str]  # environment with any provider: no updates, no tracking
    offline: Mapping[str, str]  # environment for the model server
    files: Mapping[str, str]  # below HOME, for the model server
    online_env: tuple[str, ...]  # keys of the real provider; any one of them will do


@dataclass(frozen=True, slots=True)
class RealAgent:
    """An installed agent: all that is needed to start it, in a HOME of the caller's."""

    name: str
    version: str
    command: tuple[str, ...]
    online_env: tuple[str, ...]
    path: str
    recipe: Recipe
    modules: Path  # where npm put it

    def env(self, url: str | None) -> dict[str, str]:
        """Environment beside HOME; without a URL, for the real provider (or none at all)."""
        wanted = {**self.recipe.always, **(self.recipe.offline if url else {})}
        filled = {name: text.replace("{url}", url or "") for name, text in wanted.items()}
        return {"PATH": self.path, "LANG": "C.UTF-8", **filled}

    def home_files(self, url: str | None) -> dict[str, str]:
        """Files below HOME; without a URL none, and Codex then asks for a login."""
        if url is None:
            return {}
        return {name: text.replace("{url}", url) for name, text in self.recipe.files.items()}

    def furnish(self, home: Path, url: str | None) -> dict[str, str]:
        """Write the files, and give the whole environment for that HOME."""
        for name, text in self.home_files(url).items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return {**self.env(url), "HOME": str(home)}


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


OPENCODE_CONFIG = as_json(
    {
        "model": f"local/{MODEL}",
        "small_model": f"local/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        # Else its shell runs without a question, and no permission is ever seen.
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {
            "local": {
                "name": "Local",
                "npm": "@ai-sdk/openai-compatible",  # built in: nothing is fetched for it
                "options": {"baseURL": "{url}/v1", "apiKey": "none"},
                "models": {MODEL: {"name": "Scripted"}},
            }
        },
    }
)

# The name is unknown to Codex on purpose: it then warns in front of each answer, but speaks
# plain function calls; with a name it knows it wants tools in a language of its own.
CODEX_CONFIG = f"""\
model = "{MODEL}"
model_provider = "local"
check_for_update_on_startup = false

[model_providers.local]
name = "Local"
base_url = "{{url}}/v1"
wire_api = "responses"
requires_openai_auth = false

[features]
apps = false
plugins = false
remote_plugin = false
"""

GEMINI_CONFIG = as_json(
    {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {
            "enableAutoUpdate": False,
            # With it on, the second start deletes a session that was loaded once.
            "sessionRetention": {"enabled": False},
        },
    }
)

QWEN_CONFIG = as_json(
    {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
    }
)

CLINE_CONFIG = as_json(
    {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {
            "openai-compatible": {
                "settings": {
                    "provider": "openai-compatible",
                    "apiKey": "none",
                    "model": MODEL,
                    "baseUrl": "{url}/v1",
                },
                "updatedAt": "2026-01-01T00:00:00.000Z",
                "tokenSource": "manual",
            }
        },
    }
)

RECIPES: dict[str, Recipe] = {
    "opencode": Recipe(
        package="opencode-ai",
        version="1.18.33",
        start=("opencode-*/bin/opencode", "acp"),
        always={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        offline={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        files={".config/opencode/opencode.json": OPENCODE_CONFIG},
        online_env=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
    ),
    "codex": Recipe(
        package="@agentclientprotocol/codex-acp",
        version="2.6.0",
        start=("@agentclientprotocol/codex-acp/dist/index.js",),
        always={"NO_BROWSER": "1"},
        # In its default mode a second model decides about permissions instead of the user.
        offline={"INITIAL_AGENT_MODE": "read-only"},
        files={".codex/config.toml": CODEX_CONFIG},
        online_env=("CODEX_API_KEY", "OPENAI_API_KEY"),
    ),
    "claude": Recipe(
        package="@agentclientprotocol/claude-agent-acp",
        version="0.49.0",
        start=("@agentclientprotocol/claude-agent-acp/dist/index.js",),
        # An inherited IS_SANDBOX that is neither empty nor "1" makes it die at session/new as root.
        always={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": ""},
        offline={"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "{url}"},
        files={},
        online_env=("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
    ),
    "gemini": Recipe(
        package="@google/gemini-cli",
        version="0.61.0",
        start=("@google/gemini-cli/bundle/gemini.js", "--acp"),
        always={},
        offline={
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_MODEL": "gemini-2.5-flash",  # else a router asks a second model first
        },
        files={".gemini/settings.json": GEMINI_CONFIG},
        online_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "copilot": Recipe(
        package="@github/copilot",
        version="1.0.102",
        start=("@github/copilot/npm-loader.js", "--acp"),
        always={"COPILOT_AUTO_UPDATE": "false"},
        offline={
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": MODEL,
        },
        files={},
        online_env=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
    ),
    "qwen": Recipe(
        package="@qwen-code/qwen-code",
        version="0.24.4",
        start=("@qwen-code/qwen-code/cli-entry.js", "--acp"),
        always={},
        offline={
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "{url}/v1",
            "OPENAI_MODEL": MODEL,
        },
        files={".qwen/settings.json": QWEN_CONFIG},
        online_env=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
    ),
    "cline": Recipe(
        package="cline",
        version="3.0.65",
        start=("@cline/cli-*/bin/cline", "--acp"),
        always={},
        offline={
            "CLINE_API_KEY": "none",
            "CLINE_PROVIDER": "openai-compatible",
            "CLINE_MODEL": MODEL,
        },
        files={".cline/data/settings/providers.json": CLINE_CONFIG},
        online_env=("CLINE_API_KEY",),
    ),
}

EVERY_RUN = ("codex", "claude", "opencode", "copilot", "cline")
"""Those that are quick, and differ in how they come back and what they say; the rest on demand."""


def chosen() -> tuple[str, ...]:
    """The agents that tests are to try: KANDEV_TEST_AGENTS is `all`, or names with commas."""
    asked = os.environ.get("KANDEV_TEST_AGENTS", "")
    if asked == "all":
        return tuple(RECIPES)
    names = tuple(name.strip() for name in asked.split(",") if name.strip())
    if unknown := set(names) - RECIPES.keys():
        raise InstallError(f"KANDEV_TEST_AGENTS names unknown agents: {sorted(unknown)}")
    return names or EVERY_RUN


def install(name: str) -> RealAgent:
    """The agent, ready to start; the first call downloads it, the others only look."""
    recipe = RECIPES[name]
    modules = install_npm_package(recipe.package, recipe.version) / "node_modules"
    node = find_node()
    program = find_program(modules, recipe.start[0])
    interpreter = (node.node,) if program.suffix == ".js" else ()
    command = (*interpreter, str(program), *recipe.start[1:])
    return RealAgent(name, recipe.version, command, recipe.online_env, node.path(), recipe, modules)


def find_program(modules: Path, pattern: str) -> Path:
    """The program itself; where npm brought several builds, the one for this processor."""
    found = sorted(modules.glob(pattern))
    if not found:
        raise InstallError(f"{modules}: no {pattern}; is this platform supported?")
    plain = [path for path in found if "baseline" not in path.parts[-3]]
    return plain[0] if plain and has_avx2() else found[-1]


def has_avx2() -> bool:
    """Newer builds need it on x86; other processors have only one build to choose."""
    try:
        words = Path("/proc/cpuinfo").read_text()
    except OSError:
        return True
    return "flags" not in words or " avx2" in words


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fakes.real_agents")
    commands = parser.add_subparsers(dest="what", required=True)
    adding = commands.add_parser("install", help="bring agents into the cache")
    adding.add_argument("agents", nargs="+", choices=[*RECIPES, "all"])
    asked = parser.parse_args().agents
    for name in RECIPES if "all" in asked else asked:
        try:
            agent = install(name)
        except InstallError as failure:
            sys.exit(f"{name}: {failure}")
        print(f"{name} {agent.version}: {' '.join(agent.command)}")


if __name__ == "__main__":
    main()
