"""The command line: what to try, with which key, and how the results are shown.

Exit code 0: every MUST that applies is kept; 1: at least one is not; 2: the suite could not run.
"""

import argparse
import asyncio
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kandev_operator.conformance import page
from kandev_operator.conformance.musts import Finding, Must, Result
from kandev_operator.conformance.running import Unfit, every, prepare, run, tidy
from kandev_operator.conformance.signing import (
    Credentials,
    KeyCredentials,
    TokenCredentials,
    Unusable,
)
from kandev_operator.conformance.target import Target
from kandev_operator.contract.version import CONTRACT_VERSION

KEPT, BROKEN, UNFIT = 0, 1, 2
WORDS: Final = {Result.PASS: "pass", Result.FAIL: "FAIL", Result.NOT_APPLICABLE: "n/a"}
HOW: Final = """\
The suite signs its own tokens. Give it the private key whose public half the target knows, with
the target's audience:  --key key.pem --audience EXECUTOR-UID  (an Ed25519 key, PEM or JWK; --kid
where the target's JWKS names it other than by its RFC 7638 thumbprint's first 16 characters).
Where no key may leave its place, give ready tokens:  --tokens tokens.json  with an object such as
{"read": "...", "prompt": "...", "control": "..."}; what needs special claims is then not applied.

The suite uses a session of its own and has its own small agent run on the target, by python3 on
the target's PATH; --agent-command names another one that obeys the same words (see the docstring
of kandev_operator/conformance/agent.py). At the end no agent of it is left. Its stopped session is,
with its journal: no call of the contract removes one. It is served until another one is.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m kandev_operator.conformance",
        description=f"Try an agentctl against contract v{CONTRACT_VERSION}, MUST by MUST.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = top.add_argument
    add("url", metavar="URL", nargs="?", help="where the agentctl answers, e.g. http://host:8080")
    add("--key", type=Path, metavar="FILE", help="private Ed25519 key, PEM or JWK")
    add("--kid", help="the key's id in the target's JWKS")
    add("--audience", help="the target's audience; needed with --key")
    add("--tokens", type=Path, metavar="FILE", help="ready tokens by scope instead of a key")
    add("--agent-command", metavar="COMMAND", help="the agent to run on the target (shell words)")
    add("--only", action="append", default=[], metavar="ID", help="try this one; may be repeated")
    add("--even-if-serving", action="store_true", help="use a target that serves another session")
    add("--json", action="store_true", help="results as one JSON object")
    add("--save", type=Path, metavar="FILE", help="results for the contract's page")
    add("--name", default="agentctl", help="with --save: what was tried")
    add("--page", type=Path, metavar="FILE", help="make the table of a page anew; try nothing")
    add("--list", action="store_true", help="say the MUSTs and try nothing")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run; gives the exit code."""
    options = parser().parse_args(argv)
    musts = [m for m in every() if not options.only or m.id in options.only]
    if unknown := set(options.only) - {m.id for m in musts}:
        return _cannot(f"there is no {', '.join(sorted(unknown))}")
    if options.list:
        print("\n".join(f"{m.id}  {m.area:<15} {m.sentence}" for m in musts))
        return KEPT
    if options.page is not None:
        text = options.page.read_text(encoding="utf-8")
        made = page.page(text, every(), page.known())
        options.page.write_text(made, encoding="utf-8")
        return KEPT
    if options.url is None:
        return _cannot("a URL is needed")
    try:
        credentials = _credentials(options)
        findings = asyncio.run(_run(options, credentials, musts))
    except (Unfit, Unusable) as exc:
        return _cannot(str(exc))
    if options.save is not None:
        options.save.write_text(page.saved(options.name, findings), encoding="utf-8")
    if options.json:
        print(json.dumps(as_json(options.url, findings), indent=2))
    else:
        print(summary(findings))
    return BROKEN if any(f.result is Result.FAIL for f in findings) else KEPT


def _cannot(why: str) -> int:
    print(f"cannot run: {why}", file=sys.stderr)
    return UNFIT


def _credentials(options: argparse.Namespace) -> Credentials:
    if options.tokens is not None:
        return TokenCredentials(options.tokens)
    if options.key is None or options.audience is None:
        raise Unusable("--key and --audience are needed, or --tokens; --help says how")
    return KeyCredentials(options.key, options.audience, options.kid)


async def _run(
    options: argparse.Namespace, credentials: Credentials, musts: Sequence[Must]
) -> list[Finding]:
    command = tuple(shlex.split(options.agent_command or ""))

    def say(finding: Finding) -> None:
        if not options.json:
            print(line(finding), flush=True)

    async with Target(options.url.rstrip("/"), credentials, command) as target:
        await prepare(target, even_if_serving=options.even_if_serving)
        try:
            return await run(target, musts, say)
        finally:
            await tidy(target)


def line(finding: Finding) -> str:
    """One finding for people."""
    must = finding.must
    told = f"{WORDS[finding.result]:<5} {must.id}  {must.area:<15} {must.sentence}"
    return told if finding.result is Result.PASS else f"{told}\n      {finding.seen}"


def summary(findings: Sequence[Finding]) -> str:
    """The last line."""
    counts = Counter(f.result for f in findings)
    told = ", ".join(f"{counts[r]} {r.value}" for r in Result if counts[r])
    return f"contract v{CONTRACT_VERSION}: {len(findings)} MUSTs, {told}"


def as_json(url: str, findings: Sequence[Finding]) -> dict[str, object]:
    """All of it for machines."""
    return {
        "target": url,
        "contract_version": CONTRACT_VERSION,
        "results": [
            {
                "id": f.must.id,
                "area": f.must.area,
                "must": f.must.sentence,
                "result": f.result.value,
                "seen": f.seen,
                "seconds": f.seconds,
            }
            for f in findings
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
