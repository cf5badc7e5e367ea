"""A change by a small model, led by the harness.

The model chooses what kind of change it is, under a grammar. To rename or to move is done by the tool
that it chose. Everything else it writes, as whole functions and classes in fenced blocks, from the
code that the request names; the harness finds that code, puts what was written in its place, looks
for problems, runs the tests that cover it, and lets the model write again what does not hold.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from composer_index.search.boost import is_test
from composer_index.search.tested import tested_stem
from composer_lsp.agent.calls import CallRunner, Result
from composer_lsp.agent.edits.definitions import names_defined
from composer_lsp.agent.events import Event
from composer_lsp.agent.led.answers import PATH, CodeBlock, code_blocks
from composer_lsp.agent.led.code import (
    CodeForChange,
    code_for,
    named_paths,
    piece,
)
from composer_lsp.agent.led.prompt import EXAMPLE, Prompt
from composer_lsp.agent.led.testing import CANNOT_RUN, test_line, what_failed
from composer_lsp.agent.model import ChatModel, ToolCall
from composer_lsp.agent.prompt.rules import read_rules
from composer_lsp.agent.prompt.system import Mode
from composer_lsp.agent.run import GOES_ON, AgentRun, Checks, Limits, Outcome, Question
from composer_lsp.agent.tools.command import run_command
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.definitions import rename_symbol, write_code
from composer_lsp.agent.tools.edit import move_file
from composer_lsp.agent.tools.tool import tool
from composer_lsp.agent.transcript import Transcript

MAX_CHOICES = 2
"""What it chose may not be possible as it called it."""
MAX_TRIES = 4
"""Answers with code, after which the run ends with what is wrong still."""
MAX_TESTS = 3
"""Files of tests that are run."""
_UNCHANGED = "The code was written as it stands there already. Something in it has to change."


@tool(only_reads=True)
async def other_change(
    context: ToolContext, what: Annotated[str, "what is to be done, in one sentence"]
) -> str:
    """Add, change or mend code, or write tests: all other requests."""
    return "The code that it is about comes next."


_CHOICES = (rename_symbol, move_file, other_change)


class LedRun(AgentRun):
    """An `AgentRun` in which the harness leads. `run`'s last message is the request."""

    def __init__(
        self,
        *,
        model: ChatModel,
        context: ToolContext,
        transcript: Transcript,
        emit: Callable[[Event], None],
        checks: Checks,
        mode: Mode,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            model=model,
            tools=_CHOICES,
            context=context,
            transcript=transcript,
            emit=emit,
            checks=checks,
            limits=limits,
        )
        self._calls = CallRunner([*_CHOICES, write_code, run_command], context, emit)
        self._mode = mode
        self._problem = ""
        """Why an answer was not taken, for the next one."""
        self._wrong = ""
        """What checks and tests said last."""
        self._tests_are_right = False
        """They failed before anything was changed, and are to pass as they are."""
        self._tried = ""
        self._code = CodeForChange()

    async def _loop(self) -> Outcome:
        request = self._asked()
        if self._goes_on_as_it_was:
            self._wrong = await self._checks(self._context) or await self._tested(request)
            if not self._wrong:
                return self._outcome()
        elif await self._is_done_by_choice():
            await self._tested(request)
            return self._outcome()
        prompt = await self._prompt(request)
        self._ask(prompt)
        for _ in range(MAX_TRIES):
            reply = await self._reply(Question(self._messages, (), must_call=False))
            self._add(reply.message, reply)
            blocks = code_blocks(reply.text)
            if reply.finish_reason == "length":
                self._problem = "The answer was cut. Write less: only what has to change."
            else:
                self._problem = await self._taken(request, blocks)
            if not self._problem:
                break
            # Asked in the same conversation, it would say the same again.
            self._ask(replace(prompt, tried=self._tried, problem=self._problem))
        return self._outcome()

    def _ask(self, prompt: Prompt) -> None:
        self._messages = prompt.messages
        self._transcript.add("context", messages=self._messages)

    def _asked(self) -> str:
        """The request; one that follows another begins with the first."""
        said = (str(each["content"]) for each in self._messages if each["role"] == "user")
        asked = [each for each in said if not each.endswith(GOES_ON)]
        if len(asked) == 1:
            return asked[0]
        return f"Before, the user asked: {_last_part(asked[0])}\n\nNow: {asked[-1]}"

    async def _prompt(self, request: str) -> Prompt:
        if self._mode == "fix" and not self._wrong:
            self._wrong = await self._tested(request)
            self._tests_are_right = bool(self._wrong)
        self._code = await code_for(self._context, request, self._wrong)
        return Prompt(
            request=request,
            rules=await read_rules(
                self._context.workspace, next(reversed(self._code.paths), ""), request
            ),
            pieces=self._code.pieces,
            problem=self._wrong,
        )

    @property
    def _goes_on_as_it_was(self) -> bool:
        """It was cut off when it had changed something, and the user says nothing new."""
        last = self._messages[-1]
        return bool(self._context.changes) and (
            last["role"] != "user" or str(last["content"]).endswith(GOES_ON)
        )

    async def _is_done_by_choice(self) -> bool:
        for _ in range(MAX_CHOICES):
            reply = await self._reply(Question(self._messages, _CHOICES, must_call=True))
            self._add(reply.message, reply)
            results = await self._calls.run(reply.calls[:1])
            for result in results:
                self._add_result(result)
            if any(each.call.name == other_change.name for each in results):
                return False
            if any(not each.is_error for each in results):
                await self._after_edits()
                return True
        return False

    async def _taken(self, request: str, blocks: Sequence[CodeBlock]) -> str:
        """What is wrong with an answer, for the model; nothing: it holds as far as can be seen."""
        blocks = [block for block in blocks if block.code.strip() != EXAMPLE.strip()]
        if not blocks:
            return "The answer held no code. Write it in a fenced block, under its path."
        problems: list[str] = []
        num_edits = self._context.ledger.num_edits
        by_path: dict[str, str] = {}
        for block in blocks:
            path = await self._path_of(block, request)
            by_path[path] = f"{by_path[path]}\n\n{block.code}" if path in by_path else block.code
        for path, code in by_path.items():
            if not path:
                problems.append("Write the path of its file in the line above the code.")
            elif self._tests_are_right and is_test(path):
                problems.append(f"{path} was not changed: mend the code, not its tests.")
            elif (result := await self._call(write_code.name, path=path, code=code)).is_error:
                problems.append(result.text)
        self._tried = "\n\n".join(piece(path, code) for path, code in by_path.items())
        await self._state.note()
        if problems:
            return "\n".join(problems)
        if self._context.ledger.num_edits == num_edits:
            self._tried = ""
            return f"{self._wrong}\n\n{_UNCHANGED}".strip()
        self._note_changes()
        self._wrong = (
            await self._checks(self._context)
            or self._no_test_written()
            or await self._tested(request)
        )
        return self._wrong

    def _no_test_written(self) -> str:
        changed = self._context.changes.paths
        if self._mode != "test" or any(map(is_test, changed)):
            return ""
        return "No test was written. Write it in a file of tests, such as tests/test_….py."

    async def _path_of(self, block: CodeBlock, request: str) -> str:
        """Of the file that the code belongs to; small models forget it, or copy the example's."""
        files = await self._context.files()
        if block.path in files:
            return block.path
        ends = [path for path in files if path.endswith(f"/{block.path}")] if block.path else []
        # Or a folder too much, as the example's.
        parts = block.path.split("/")
        ends += [path for i in range(1, len(parts)) if (path := "/".join(parts[i:])) in files]
        if len(ends) == 1:
            return ends[0]
        for path in reversed(self._code.paths):
            if await self._defines_the_same(path, block.code):
                return path
        named = [path for path in PATH.findall(request) if path.endswith(block.path)]
        return next(iter(named), block.path)

    async def _defines_the_same(self, path: str, code: str) -> bool:
        file = await self._context.file(await self._context.place(path))
        return file is not None and bool(names_defined(path, file.text) & names_defined(path, code))

    async def _tested(self, request: str) -> str:
        """The output of the tests that cover what is changed or named, if they fail."""
        line = await self._test_line(request)
        if line is None:
            return ""
        result = await self._call(run_command.name, command=line)
        runs = self._context.ledger.commands
        if result.is_error or not runs or runs[-1].has_passed or CANNOT_RUN.search(result.text):
            return ""
        return f"The tests fail:\n```\n$ {line}\n{what_failed(result.text)}\n```"

    async def _test_line(self, request: str) -> str | None:
        paths = self._context.workspace.paths
        if len(paths.roots) > 1:
            return None
        files = [path for path in await self._context.files() if is_test(path)]
        changed = self._context.changes.paths
        modules = {Path(path).stem for path in changed}
        tests = named_paths(request, files)
        tests += [path for path in files if path in changed or tested_stem(path) in modules]
        return test_line(Path(paths.roots[0]), list(dict.fromkeys(tests))[:MAX_TESTS])

    async def _call(self, name: str, **arguments: str) -> Result:
        """A call that the harness makes, and not the model."""
        call = ToolCall(
            id=f"call_{secrets.token_hex(6)}", name=name, arguments=json.dumps(arguments)
        )
        function = {"name": name, "arguments": call.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        self._transcript.add("message", message=message, by="harness")
        (result,) = await self._calls.run([call])
        told = f"Error: {result.text}" if result.is_error else result.text
        answer = {"role": "tool", "tool_call_id": call.id, "name": name, "content": told}
        self._transcript.add("message", message=answer, by="harness")
        return result

    def _outcome(self) -> Outcome:
        changed = sorted({change.path for change in self._context.changes.changes()})
        listed = f"Changed {', '.join(changed)}." if changed else "Nothing was changed."
        runs = [each for each in self._context.ledger.commands if each.is_test]
        if self._context.ledger.tests_passed:
            listed += f" `{runs[-1].line}` passed."
        elif runs and self._problem:
            listed += f" `{runs[-1].line}` does not pass."
        elif runs:
            listed += f" `{runs[-1].line}` ran, and shows nothing."
        else:
            listed += " No tests were run."
        if not self._problem:
            return Outcome(status="finished", text=listed)
        told = f"{listed} After {MAX_TRIES} tries this is wrong still:\n{self._problem}"
        return Outcome(status="stuck", text=told)


def _last_part(text: str) -> str:
    """The user's own words: they stand behind what is known of where he is."""
    return text.rpartition("\n\n")[2]
