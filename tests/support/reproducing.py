"""Runs the commands of `python -m reproduction` as a user would."""

from __future__ import annotations

from typing import Any
from unittest import mock

from reproduction.__main__ import app
from support import command_line, processes

COMMANDS = "from reproduction.__main__ import main; main()"
_this_app = mock.patch.object(command_line, "app", app)
command, answer, refused = map(_this_app, (command_line.command, command_line.answer, command_line.refused))


def start(*arguments: object) -> Any:
    """A process of its own."""
    return processes.start(*arguments, code=COMMANDS)
