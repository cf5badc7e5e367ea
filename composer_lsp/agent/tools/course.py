"""Tools by which the model says where it stands."""

from typing import Annotated

from composer_lsp.agent.tools.context import PlanState, PlanStep, ToolContext
from composer_lsp.agent.tools.tool import ToolError, tool

MAX_STEPS = 20


@tool(only_reads=False)
async def update_plan(
    context: ToolContext,
    steps: Annotated[tuple[str, ...], "what is to be done, in order, a line each"],
    num_done: Annotated[int, "how many of them, from the first, are done"] = 0,
) -> str:
    """Say what you will do and how far you are. Only for work of several steps."""
    if not 1 <= len(steps) <= MAX_STEPS:
        raise ToolError(f"a plan has 1 to {MAX_STEPS} steps, not {len(steps)}")
    if not 0 <= num_done <= len(steps):
        raise ToolError(f"num_done is 0 to {len(steps)}, not {num_done}")
    context.plan = tuple(
        PlanStep(text=text, state=_state(number, num_done)) for number, text in enumerate(steps)
    )
    return "Noted."


@tool(only_reads=False)
async def finish(
    context: ToolContext, summary: Annotated[str, "what was done or found, in a few lines"]
) -> str:
    """End the run when the request is answered or done."""
    context.summary = summary.strip()
    return "Done."


def _state(number: int, num_done: int) -> PlanState:
    if number < num_done:
        return "done"
    return "doing" if number == num_done else "todo"
