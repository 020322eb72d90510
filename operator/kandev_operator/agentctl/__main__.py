"""`kandev-agentctl`, and `python -m kandev_operator.agentctl`: read the options, then serve.

`install` and `prepare` are steps that make a pod ready; they end when they are done.
"""

import sys

from kandev_operator.agentctl import settings


def main(argv: list[str] | None = None) -> None:
    """The console script's entry point."""
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in settings.STEPS:
        from kandev_operator.agentctl import steps

        sys.exit(steps.main(words))
    told = settings.read(words)
    # Late: --help and a mistake in the options need none of it.
    if told.detach:
        from kandev_operator.agentctl import detach

        sys.exit(detach.main(told))
    from kandev_operator.agentctl import serve

    sys.exit(serve.main(told))


if __name__ == "__main__":
    main()
