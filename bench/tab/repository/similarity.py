"""How much of a solution an answer has."""


def edit_similarity(answer: str, solution: str) -> float:
    """1 for the same text and 0 for nothing in common: 1 minus insertions and deletions over both lengths,
    as repository-level benchmarks reckon it (Ding et al. 2023, CrossCodeEval, arXiv 2310.11248)."""
    if not answer and not solution:
        return 1.0
    return 2 * _num_common(answer, solution) / (len(answer) + len(solution))


def _num_common(one: str, other: str) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for char in one:
        diagonal = 0
        for index, against in enumerate(other, 1):
            above = row[index]
            row[index] = diagonal + 1 if char == against else max(above, row[index - 1])
            diagonal = above
    return row[-1]
