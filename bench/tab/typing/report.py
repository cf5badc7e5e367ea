"""What typing sessions say of a client."""

from collections.abc import Callable, Sequence

from bench.measure import p50, p90, row
from bench.tab.typing.simulation import Session

Figure = Callable[[Sequence[Session]], float]


def print_report(sessions: Sequence[Session]) -> None:
    """A table a model, with the clients side by side and the first one's ratio to each other."""
    for model in dict.fromkeys(each.model for each in sessions):
        of_model = [each for each in sessions if each.model == model]
        clients = list(dict.fromkeys(each.client for each in of_model))
        by_client = [[each for each in of_model if each.client == name] for name in clients]
        num_chars = sum(each.num_chars for each in by_client[0])
        row(
            f"{model}, {len(by_client[0])} files, {num_chars} chars",
            *clients,
            *(f"to {name}" for name in clients[1:]),
        )
        for name, figure in FIGURES.items():
            values = [figure(of) for of in by_client]
            ratios = [_ratio(values[0], value) for value in values[1:]]
            row(f"  {name}", *map(_number, values), *ratios)


def share_not_typed(sessions: Sequence[Session]) -> float:
    return accepted_chars(sessions) / sum(each.num_chars for each in sessions)


def accepted_chars(sessions: Sequence[Session]) -> int:
    return sum(each.num_accepted_chars for session in sessions for each in session.suggested)


def share_of(*verdicts: str) -> Figure:
    """Of the suggestions shown."""

    def share(sessions: Sequence[Session]) -> float:
        found = [each.verdict in verdicts for session in sessions for each in session.suggested]
        return sum(found) / len(found) if found else 0.0

    return share


def keys_per_char(sessions: Sequence[Session]) -> float:
    return sum(each.num_keys for each in sessions) / sum(each.num_chars for each in sessions)


def tokens_per_accepted_char(sessions: Sequence[Session]) -> float:
    """Prefilled and decoded; infinite where nothing was accepted."""
    num_tokens = sum(each.tokens.prefill + each.tokens.decoded for each in sessions)
    return num_tokens / accepted_chars(sessions) if accepted_chars(sessions) else float("inf")


def shown_per_100_chars(sessions: Sequence[Session]) -> float:
    num_shown = sum(len(each.suggested) for each in sessions)
    return 100 * num_shown / sum(each.num_chars for each in sessions)


def ms_to_ghost(percentile: Callable[[Sequence[float]], float]) -> Figure:
    """From the key before a suggestion to its first sight."""

    def ms(sessions: Sequence[Session]) -> float:
        shown = [each.ms for session in sessions for each in session.suggested]
        found = [each for each in shown if each is not None]
        return percentile(found) if len(found) > 1 else float("nan")

    return ms


FIGURES: dict[str, Figure] = {
    "characters not typed": share_not_typed,
    "keys per character": keys_per_char,
    "suggestions per 100 characters": shown_per_100_chars,
    "of them accepted": share_of("accepted", "accepted lines"),
    "of them wrong": share_of("wrong"),
    "time to ghost, p50 ms": ms_to_ghost(p50),
    "time to ghost, p90 ms": ms_to_ghost(p90),
    "engine tokens per accepted character": tokens_per_accepted_char,
}


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float, peer: float) -> str:
    return f"{value / peer:.2f}" if peer else "-"
