"""`make bench`: run the benchmarks named, or all; results in build/benchmarks, then a table.

The exit code is 1 when a count is over its budget, or a benchmark did not come to its end.
"""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from rich.console import Console

from benchmarks.ground import REPOSITORY
from benchmarks.report import Metric, NotHere, failures, save, show

NAMES = ("writes", "restart", "idle", "events", "shell", "repositories", "pods")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, save, tell."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parsed: Sequence[str] = parser.parse_args(arguments).names
    names = parsed or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    console = Console()
    results: dict[str, Sequence[Metric]] = {}
    broken: list[str] = []
    for name in names:
        began = time.monotonic()
        console.print(f"[bold]{name}[/]")
        try:
            metrics = importlib.import_module(f"benchmarks.{name}").run(_sayer(console))
        except NotHere as why:
            # Whoever asks for it by name is told by the exit code too.
            console.print(f"  not measured: {why}", highlight=False, markup=False)
            broken += [name] if parsed else []
            continue
        except Exception:
            console.print(traceback.format_exc(), markup=False, highlight=False, soft_wrap=True)
            broken.append(name)
            continue
        results[name] = metrics
        path = save(REPOSITORY / "build" / "benchmarks", name, metrics)
        console.print(f"  {time.monotonic() - began:.0f} s; {path}", highlight=False)
    show(console, results)
    for metric in failures(results.values()):
        console.print(f"[red]over budget:[/] {metric.name}: {metric.value:g} > {metric.goal:g}")
    for name in broken:
        console.print(f"[red]did not end:[/] {name}")
    return 1 if broken or failures(results.values()) else 0


def _sayer(console: Console) -> Callable[[str], None]:
    return lambda words: console.print(f"  {words}", highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main())
