"""The console command `harness`: finds the command, and turns every error into one line and an exit code."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback

import click

from harness import __version__
from harness.errors import HarnessError, UnknownName

# Command → module; a module is imported only when its command, or the list of commands, is asked for.
COMMANDS = {
    "eval": "harness.cli.eval",
    "check": "harness.cli.check",
    "lint": "harness.cli.lint",
    "inspect": "harness.cli.inspect",
    "build": "harness.cli.build",
    "candidates": "harness.cli.candidates",
    "ab": "harness.cli.ab",
    "variants": "harness.cli.variants",
    "pick": "harness.cli.pick",
    "history": "harness.cli.history",
    "report": "harness.cli.report",
    "records": "harness.cli.records",
    "new": "harness.cli.new",
    "doctor": "harness.cli.doctor",
}
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM came: end as on Ctrl-C, with children ended and temporary files removed."""


class CommandGroup(click.Group):
    """Loads a command's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a competitor's day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[cmd_name]).command

    def resolve_command(self, ctx: click.Context, args: list[str]):
        """As click does, naming the nearest command for one that does not exist."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise UnknownName("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="harness")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def cli(debug: bool) -> None:
    """Check, time, compare and merge competition kernels, honestly.

    Exit codes: 0 all well, 1 a verdict failed, 2 wrong usage.
    """


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def run(arguments: list[str], command: click.Command = cli) -> int:
    """Run one command; returns the exit code and never raises.

    command: another one that is to end as these do, in place of the group that finds a command by its name.
    """
    debug = "--debug" in arguments
    try:
        if command is cli:
            code = cli.main(args=arguments or ["--help"], prog_name="harness", standalone_mode=False)
        else:
            code = command.main(args=arguments, prog_name=command.name, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except Terminated:
        _say("terminated", debug)
        return EXIT_TERMINATED
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted", debug)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        _say(_with_context(error), debug)
        return 2
    except HarnessError as error:
        _say(str(error), debug)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone; nobody is left to tell.
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        _say(f"{error.filename}: {error.strerror}", debug)
        return 2


def _with_context(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return error.format_message().replace("\n", " ") + hint


def _say(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    click.echo(f"error: {' '.join(message.splitlines())}", err=True)
