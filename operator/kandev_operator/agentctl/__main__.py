"""`kandev-agentctl`, and `python -m kandev_operator.agentctl`: read the options, then serve."""

import sys

from kandev_operator.agentctl import settings


def main(argv: list[str] | None = None) -> None:
    """The console script's entry point."""
    told = settings.read(sys.argv[1:] if argv is None else argv)
    # Late: --help and a mistake in the options need none of it.
    if told.detach:
        from kandev_operator.agentctl import detach

        sys.exit(detach.main(told))
    from kandev_operator.agentctl import serve

    sys.exit(serve.main(told))


if __name__ == "__main__":
    main()
