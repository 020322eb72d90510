"""The stream of changes: ready first, then sets of paths; what is lost is said.

Changes are made by the contract's own calls in a folder of the suite's own, so that whoever else
works in the workspace meanwhile does not disturb.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.checks_files import call, folder, in_a_shell, write
from kandev_operator.conformance.checks_rooms import declared
from kandev_operator.conformance.musts import must, need
from kandev_operator.conformance.target import Frame, Target
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import WatchChanged, WatchEvent, WatchOverflow, WatchReady
from kandev_operator.contract.status import Room

FILES: Final = Room.FILES
FEW: Final = 60
MANY: Final = 3000
"""More than an implementation may hold for a reader; it need not be."""
_NEW: Final = {"If-None-Match": "*"}
LAST: Final = "last"
"""The file whose making ends a reading."""


def changed(frame: Frame) -> tuple[str, ...]:
    """The paths that a frame tells of."""
    if frame.kind != WatchEvent.CHANGED:
        return ()
    return WatchChanged.model_validate_json(frame.data).paths


async def watched(target: Target, name: str, work: Callable[[], Awaitable[object]]) -> list[Frame]:
    """What a watch of a folder tells of some work, up to a file that is made after it.

    That file may be among what an overflow swallowed: after each another one is made.
    """
    busy: list[asyncio.Task[None]] = []

    async def then_end(number: int) -> None:
        if not number:
            await work()
        made = await write(target, f"{name}/{LAST}-{number}", b"", _NEW)
        need(made.status == 201, f"the last file: {made}")

    def is_last(frame: Frame) -> bool:
        if frame.kind in (WatchEvent.READY, WatchEvent.OVERFLOW):
            # The work goes on beside the reading, which would else be slower than it.
            busy.append(asyncio.create_task(then_end(len(busy))))
        return any(path.startswith(f"{name}/{LAST}-") for path in changed(frame))

    try:
        return await target.read(
            is_last, stream=paths.FILES_WATCH, scopes=(Scope.FILES,), path=name
        )
    finally:
        for task in busy:
            if task.done():
                task.result()
            task.cancel()


async def nothing() -> None:
    """No work."""


@must("C-149", FILES, "A watch begins with ready, which names instance and boot.", FILES)
async def ready(target: Target) -> str:
    async with folder(target) as name:
        told = [f for f in await watched(target, name, nothing) if not f.comment]
        need(told[0].kind == WatchEvent.READY, f"first comes {told[0].kind!r}")
        first = WatchReady.model_validate_json(told[0].data)
        status = await target.status()
        same = (first.instance_id, first.boot_id) == (status.instance_id, status.boot_id)
        need(same, "ready names another instance or boot")
        need(not any(f.id for f in told), "a frame has an id, and there is no cursor")
        return f"{first.folders} folders"


@must("C-150", FILES, "From ready on, what is made, changed, renamed and removed is told.", FILES)
async def changes(target: Target) -> str:
    async with folder(target) as name:
        for each in ("old", "from", "gone"):
            await write(target, f"{name}/{each}", b"1", _NEW)

        async def work() -> None:
            await call(target, "POST", paths.FILES_FOLDERS, {"path": f"{name}/a"})
            await write(target, f"{name}/a/made", b"1", _NEW)
            await write(target, f"{name}/old", b"2", {"If-Match": "*"})
            body = {"from_path": f"{name}/from", "to_path": f"{name}/to"}
            await call(target, "POST", paths.FILES_RENAME, body)
            await call(target, "DELETE", f"{paths.FILES_ENTRY}?path={name}/gone")

        told = {p for f in await watched(target, name, work) for p in changed(f)}
        wanted = ("a", "a/made", "old", "from", "to", "gone")
        missing = {f"{name}/{each}" for each in wanted} - told
        need(not missing, f"not told: {sorted(missing)}")
        return f"{len(told)} paths"


@must("C-151", FILES, "What changes at once is told together, each path once in an event.", FILES)
async def coalesced(target: Target) -> str:
    async with folder(target) as name:
        await call(target, "POST", paths.FILES_FOLDERS, {"path": f"{name}/many"})
        for number in range(FEW):
            await write(target, f"{name}/many/{number}", b"", _NEW)

        async def work() -> None:
            await call(target, "DELETE", f"{paths.FILES_ENTRY}?path={name}/many&recursive=true")

        sets = [each for each in map(changed, await watched(target, name, work)) if each]
        need(all(len(set(each)) == len(each) for each in sets), "an event names a path twice")
        need(len({p for each in sets for p in each}) > FEW, "not every path is told")
        need(len(sets) <= FEW // 3, f"{FEW} files removed by one call are {len(sets)} events")
        return f"{FEW} files in {len(sets)} events"


@must("C-152", FILES, "A watch tells of its own folder alone, and of none outside.", FILES)
async def its_own(target: Target) -> str:
    async with folder(target) as name:
        for each in ("a", "ab"):
            await call(target, "POST", paths.FILES_FOLDERS, {"path": f"{name}/{each}"})

        async def work() -> None:
            for each in ("ab/f", "g", "a/f"):
                await write(target, f"{name}/{each}", b"", _NEW)

        told = {p for f in await watched(target, f"{name}/a", work) for p in changed(f)}
        strange = {p for p in told if p != f"{name}/a" and not p.startswith(f"{name}/a/")}
        need(not strange, f"told of {sorted(strange)[:3]}")
        for path in ("..", "../x", f"{name}/../../x", "/etc"):
            answer = await call(target, "GET", f"{paths.FILES_WATCH}?path={path}")
            refused(answer, Code.OUTSIDE_WORKSPACE, Code.INVALID_REQUEST)
        return f"{len(told)} paths, four ways out closed"


@must("C-153", FILES, "Each change is told or an overflow is; then it goes on.", FILES)
async def lost(target: Target) -> str:
    async with folder(target) as name:
        for each in ("seen", "aside"):
            await call(target, "POST", paths.FILES_FOLDERS, {"path": f"{name}/{each}"})
        count = await filled(target, f"{name}/aside")

        async def work() -> None:
            body = {"from_path": f"{name}/aside", "to_path": f"{name}/seen/all"}
            await call(target, "POST", paths.FILES_RENAME, body)

        told = await watched(target, f"{name}/seen", work)
        seen = {p for f in told for p in changed(f) if p.startswith(f"{name}/seen/all/")}
        reasons = [
            WatchOverflow.model_validate_json(f.data).reason
            for f in told
            if f.kind == WatchEvent.OVERFLOW
        ]
        need(reasons or len(seen) == count, f"{len(seen)} of {count} paths, and no overflow")
        return f"overflow: {reasons[0]}" if reasons else f"all {count} paths"


async def filled(target: Target, name: str) -> int:
    """Put very many files into a folder, by a shell where there is one; gives how many."""
    if (await declared(target)).shell is False:
        for number in range(FEW):
            await write(target, f"{name}/{number}", b"", _NEW)
        return FEW
    script = f'i=0; while [ $i -lt {MANY} ]; do : > "$0/$i"; i=$((i+1)); done'
    code = await in_a_shell(target, ["sh", "-c", script, name], "the end of making files")
    need(code == 0, f"the files could not be made: exit code {code}")
    return MANY
