"""The command `fanfold`: a group that loads a command's module only when that command is run.

What commands raise becomes an exit code here and nowhere else:

    0    done
    1    the job failed or was cancelled, or the command could not do its work
    2    the command line or a setting is wrong
    3    the service, or something it stands on, does not answer
    4    the service refused the request
    130  interrupted by Ctrl-C
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

import fanfold

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNAVAILABLE: Final = 3
REFUSED: Final = 4
INTERRUPTED: Final = 130

#: Every command with its line in `fanfold --help`, kept here so that the help imports none of them.
SECTIONS: Final[dict[str, dict[str, str]]] = {
    'Without a service': {
        'render': 'Render an HTML file on this machine, in parallel.',
        'assemble': 'Put painted parts together to one PDF.',
        'inspect': 'Show what is in a painted part or in a PDF.',
    },
    'Jobs': {
        'submit': 'Render HTML files, or a template with records, to one PDF.',
        'status': 'Show how far a job is.',
        'list': 'List jobs, newest first.',
        'download': "Save a job's PDF.",
        'cancel': 'Cancel jobs.',
        'retry': 'Render again what failed in a job.',
        'delete': 'Cancel jobs and remove all they hold.',
    },
    'Service': {
        'up': 'Run the whole stack on this machine.',
        'api': 'Run the HTTP API.',
        'worker': 'Run a renderer worker.',
        'assembler': 'Run the assembler: it merges and keeps jobs moving.',
        'migrate': 'Bring the database to the present schema and make the bucket.',
        'health': 'Tell whether a service answers.',
    },
    'To see it work': {
        'demo': 'Render 200 documents in parallel on a stack of its own.',
    },
}
NAMES: Final = tuple(name for commands in SECTIONS.values() for name in commands)


class LazyGroup(click.Group):
    """Commands are `fanfold.commands.<name>:command`, in the order of SECTIONS."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in NAMES:
            return None
        command = importlib.import_module(f'fanfold.commands.{cmd_name}').command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        width = max(map(len, NAMES))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])


@click.group(cls=LazyGroup, context_settings={'help_option_names': ['-h', '--help'], 'max_content_width': 100})
@click.version_option(fanfold.__version__, prog_name='fanfold', message='%(prog)s %(version)s')
def cli() -> None:
    """Render HTML to PDF in parallel: one job in, exactly one PDF out.

    `fanfold COMMAND --help` explains a command. Commands that talk to a service find it by --url or
    FANFOLD_URL.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that its outcome has."""
    try:
        code = cli.main(args=arguments, prog_name='fanfold', standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        code = report(error)
    sys.exit(code if isinstance(code, int) else OK)


def report(error: Exception) -> int:
    """Print an error that is not the command line's and give its exit code; what nobody raised on purpose goes on."""
    from runtime.errors import ConfigurationError, FanfoldError, Retryable

    if not isinstance(error, FanfoldError):
        raise error
    from fanfold.client.errors import NotSendable, Refused

    click.echo(f'Error: {error}', err=True)
    if isinstance(error, ConfigurationError | NotSendable):
        return USAGE
    if isinstance(error, Refused):
        return REFUSED
    return UNAVAILABLE if isinstance(error, Retryable) else FAILED
