"""How the demo speaks: numbered scenes, the commands a person would type, and what they printed."""

import os
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False, soft_wrap=True)


class Show:
    """Prints the story. Knows the play's clock, and a shell's environment."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self._began = time.monotonic()
        self._scene = 0

    def scene(self, title: str) -> None:
        """Begin the next scene."""
        self._scene += 1
        seconds = time.monotonic() - self._began
        console.print(f"\n[bold cyan]{self._scene}. {escape(title)}[/] [dim]({seconds:.0f} s)[/]")

    def say(self, text: str) -> None:
        """One sentence of the story."""
        console.print(f"   {escape(text)}")

    def good(self, text: str) -> None:
        """Something that had to be so, and is."""
        console.print(f"   [green]✓[/] {escape(text)}")

    def bad(self, text: str) -> None:
        """Something that had to be so, and is not."""
        console.print(f"   [red]✗ {escape(text)}[/]")

    def run(self, *command: str, cwd: Path | None = None, timeout: float = 180) -> str:
        """Run a command as a person would, showing it and what it prints; raises on failure."""
        console.print(f"   [bold]$ {escape(_as_typed(command))}[/]")
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        for line in done.stdout.rstrip().splitlines():
            console.print(f"     {escape(line)}")
        if done.returncode:
            for line in done.stderr.rstrip().splitlines():
                console.print(f"     [red]{escape(line)}[/]")
            raise Broken(f"{_as_typed(command)} failed with exit code {done.returncode}")
        return done.stdout

    def keep(self, title: str, text: str) -> None:
        """Lines to copy: nothing is drawn around them, and nothing is wrapped."""
        console.print(f"\n[bold]{escape(title)}[/]")
        for line in text.splitlines():
            console.print(f"   {escape(line)}")


class Broken(Exception):
    """The story cannot go on; the text is for people."""


def _as_typed(command: tuple[str, ...]) -> str:
    return " ".join(f'"{part}"' if " " in part else part for part in command)
