"""An edit that models of 0.5 billion parameters do: an attribute is renamed in a file of 167 lines, which changes
5% of them. The answer's beginning is given, down to the first line that is changed: asked without it,
such models write the file again as it is.
"""

import difflib
import inspect
import sched

OLD, NEW = "_queue", "_events"
SOURCE = inspect.getsource(sched)
_END = SOURCE.index("\n", SOURCE.index(f"self.{OLD} = ")) + 1
GIVEN = SOURCE[:_END].replace(OLD, NEW)
PREDICTION = SOURCE[_END:]
"""What the old text says behind it."""
PROMPT = (
    "<|im_start|>user\n"
    f"Rename the attribute `{OLD}` to `{NEW}` everywhere. Answer with the whole file in one code block, "
    f"everything else unchanged.\n\n```python\n{SOURCE}```<|im_end|>\n"
    f"<|im_start|>assistant\n```python\n{GIVEN}"
)
"""As the models of the Qwen family have their turns."""


def told(answer: str, num_tokens: int) -> str:
    """What a model made of the edit."""
    old, new = SOURCE.splitlines(), (GIVEN + answer.split("```")[0]).splitlines()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    num_changed = len(old) - sum(block.size for block in blocks)
    return (
        f"{num_tokens} tokens; {num_changed} of the file's {len(old)} lines are changed "
        f"({num_changed / len(old):.1%}), and of {PREDICTION.count(OLD)} names behind the answer's "
        f"beginning {answer.count(NEW)}"
    )
