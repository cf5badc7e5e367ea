"""Which tools a mode has."""

from collections.abc import Sequence

from composer_lsp.agent.prompt.system import Mode
from composer_lsp.agent.tools.code import (
    Lint,
    diagnostics_tool,
    references,
    semantic_search,
    symbols,
)
from composer_lsp.agent.tools.command import read_output, run_command, stop_command
from composer_lsp.agent.tools.course import finish, update_plan
from composer_lsp.agent.tools.definitions import rename_symbol
from composer_lsp.agent.tools.edit import (
    delete_file,
    edit_file,
    move_file,
    write_file,
)
from composer_lsp.agent.tools.files import find_files, list_files, read_file
from composer_lsp.agent.tools.grep import grep
from composer_lsp.agent.tools.tool import Tool

_FILES = (read_file, list_files, find_files, grep)
_INDEX = (semantic_search, symbols, references)
_EDITS = (edit_file, rename_symbol, write_file, move_file, delete_file)
_COMMANDS = (run_command, read_output, stop_command)


def tools_for(
    mode: Mode, *, has_index: bool, has_diagnostics: bool, lint: Lint | None = None
) -> Sequence[Tool]:
    """In a stable order: the prompt begins with them. `lint` tells what is wrong in a file where
    the editor does not."""
    tools = [*_FILES, *(_INDEX if has_index else ())]
    if has_diagnostics or (lint is not None and mode not in ("ask", "plan")):
        tools.append(diagnostics_tool(lint))
    if mode == "plan":
        tools.append(update_plan)
    elif mode != "ask":
        tools += [*_EDITS, *_COMMANDS, update_plan, finish]
    return tools


_LED_PLAN = (
    read_file.with_only("path", "start_line"),
    grep.with_only("pattern"),
    update_plan.with_only("steps"),
    finish,
)


def few_tools_for(mode: Mode) -> Sequence[Tool]:
    """For a model that is led by the hand and changes nothing: what it may leave out it would fill
    with a guess. None to answer a question with."""
    return _LED_PLAN if mode == "plan" else ()
