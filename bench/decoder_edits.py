"""Rewriting a file: plain decoding against verified drafts of its old text.

The model itself is asked for the change of `edit_task`, and whatever it answers greedily is measured, the
same both times: how much of the file it changed is printed with it.
"""

from bench.decoder_ours import Answer, Ours
from bench.edit_task import PREDICTION, PROMPT, told
from bench.measure import row
from composer_inference.sampling.vocabulary import Vocabulary

MAX_TOKENS = 2000


def measure_edits(ours: Ours, vocabulary: Vocabulary) -> None:
    prompt_ids = vocabulary.encode(PROMPT)
    prediction = vocabulary.encode(PREDICTION, special=False)
    ours.answer(prompt_ids, 1)  # The prompt is cached for both.
    plain, num_plain_steps, _ = _counted(ours, prompt_ids, None)
    drafted, num_steps, accepted = _counted(ours, prompt_ids, prediction)
    assert plain.token_ids == drafted.token_ids
    text = b"".join(map(vocabulary.token_bytes, plain.token_ids)).decode(errors="replace")
    prefill_rate = len(prompt_ids) / ours.answer(prompt_ids[::-1], 1).first.wall
    ceiling = prefill_rate / ((len(plain.token_ids) - 1) / plain.rest.wall)
    print(f"an edit: {told(text, len(plain.token_ids))}; {accepted} were drafted rightly")
    row("", "prediction", "plain", "ratio", "ceiling")
    row("  steps", str(num_steps), str(num_plain_steps), f"{num_plain_steps / num_steps:.1f}")
    row(
        "  seconds",
        f"{drafted.rest.wall:.1f}",
        f"{plain.rest.wall:.1f}",
        f"{plain.rest.wall / drafted.rest.wall:.2f}",
        f"{ceiling:.2f}",
    )


def _counted(
    ours: Ours, prompt_ids: list[int], prediction: list[int] | None
) -> tuple[Answer, int, int]:
    """The answer, the steps that it took, and the drafted tokens that were accepted."""
    counts = ours.stepper.counts
    num_steps, num_accepted = counts.num_steps, counts.num_draft_accepted
    answer = ours.edit(prompt_ids, MAX_TOKENS, prediction)
    return answer, counts.num_steps - num_steps, counts.num_draft_accepted - num_accepted
