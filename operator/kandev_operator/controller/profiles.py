"""An AgentProfile with its references resolved: what an agent is started with, and its hash.

The hash covers everything the agent is started with. Of a Secret its UID and resourceVersion
count, not its contents: a changed Secret is a changed profile, and no hash of a password lands in
status. Values are resolved only for the call that needs them and are kept nowhere.
"""

import hashlib
import json
from typing import Any

from kandev_operator.api.agent import EnvVar, McpServer
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.clients.resources import SECRETS
from kandev_operator.contract.agent import AgentSpec, PermissionPolicy
from kandev_operator.controller.secrets import Secrets
from kandev_operator.core.observed import Found, Look, Missing, ProfileSeen, Unreadable


class ProfileResolver:
    """Resolves profiles by reading the Secrets that they name."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def look(self, profile: AgentProfile, *, fresh: bool = False) -> Look[ProfileSeen]:
        """The profile, its hash, and what is missing of it; `fresh`: with its Secrets as of now."""
        versions: dict[str, str] = {}
        unresolved = ""
        for variable in _variables(profile):
            ref = variable.secret_key_ref
            if ref is None:
                continue
            namespace = profile.metadata.namespace
            seen = await self._secrets.read(SECRETS, namespace, ref.name, fresh=fresh)
            match seen:
                case Unreadable():
                    return Unreadable(seen.why)
                case Found(value=body):
                    meta = body["metadata"]
                    versions[ref.name] = f"{meta.get('uid')}/{meta.get('resourceVersion')}"
                    missing = ref.key not in (body.get("data") or {})
                case Missing():
                    missing = True
            if missing and not ref.optional:
                unresolved = unresolved or (
                    f"Secret {ref.name} with key {ref.key}, which AgentProfile "
                    f"{profile.metadata.name} names, does not exist."
                )
        spec = profile.spec.dump()
        text = json.dumps([spec, versions], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return Found(ProfileSeen(profile, digest, unresolved))

    async def agent_spec(
        self, session: TaskSession, seen: ProfileSeen, cwd: str | None, adopt_from: str | None
    ) -> AgentSpec | None:
        """The body of PUT agent; None when a Secret cannot be read just now."""
        env = await self._values(seen.profile, seen.profile.spec.env)
        if env is None:
            return None
        command = seen.profile.spec.command
        meta = session.metadata
        return AgentSpec(
            session_id=meta.uid,
            session_namespace=meta.namespace,
            session_name=meta.name,
            adopt_from=adopt_from,
            command=command[0],
            args=(*command[1:], *seen.profile.spec.args),
            env=env,
            cwd=cwd,
            permission_policy=PermissionPolicy(seen.profile.spec.permission_policy.value),
            permission_timeout_seconds=seen.profile.spec.permission_timeout_seconds,
            profile_uid=seen.profile.metadata.uid,
            profile_hash=seen.hash,
        )

    async def mcp_servers(self, profile: AgentProfile) -> tuple[dict[str, Any], ...] | None:
        """The MCP servers in ACP's shapes; None when a Secret cannot be read just now."""
        out: list[dict[str, Any]] = []
        for server in profile.spec.mcp_servers:
            shaped = await self._mcp_server(profile, server)
            if shaped is None:
                return None
            out.append(shaped)
        return tuple(out)

    async def _mcp_server(self, profile: AgentProfile, server: McpServer) -> dict[str, Any] | None:
        given = server.headers if server.url else server.env
        values = await self._values(profile, given)
        if values is None:
            return None
        pairs = [{"name": name, "value": value} for name, value in values.items()]
        if server.url:
            kind = server.transport.value
            return {"type": kind, "name": server.name, "url": server.url, "headers": pairs}
        return {
            "name": server.name,
            "command": server.command,
            "args": list(server.args),
            "env": pairs,
        }

    async def _values(
        self, profile: AgentProfile, variables: tuple[EnvVar, ...]
    ) -> dict[str, str] | None:
        out: dict[str, str] = {}
        for variable in variables:
            ref = variable.secret_key_ref
            if ref is None:
                out[variable.name] = variable.value or ""
                continue
            look = await self._secrets.value(SECRETS, profile.metadata.namespace, ref.name, ref.key)
            match look:
                case Found(value=text):
                    out[variable.name] = text
                case Missing() if ref.optional:
                    continue
                case _:
                    return None
        return out


def _variables(profile: AgentProfile) -> list[EnvVar]:
    found = [*profile.spec.env]
    for server in profile.spec.mcp_servers:
        found += [*server.env, *server.headers]
    return found
