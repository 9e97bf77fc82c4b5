"""The command line: parse, call, print. Data goes to stdout, everything else to stderr.

Nothing heavy is imported here; each command loads what it needs when it runs.
"""

import click

from headwise.cli.attend import attend
from headwise.cli.check import check
from headwise.cli.design import design
from headwise.cli.frame import Sentences
from headwise.cli.inspect import inspect
from headwise.cli.lab import lab
from headwise.cli.stress import stress
from headwise.cli.study import study
from headwise.version import __version__


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Answers about softmax attention, with evidence.

    \b
    Example:
      headwise attend --queries q.npy --keys k.npy --values v.csv
    """


for command in (attend, check, design, inspect, lab, stress, study):
    main.add_command(command)
