"""Trains the embedding table: `python train.py PAIRS.npz MINILM TABLE [--minutes 7]`.

A text's vector is the sum of its distinct words' rows, each times the square root of its count,
normalised. Rows start from MiniLM's vectors of the words (PCA, times a weight that falls with the
word's frequency: SIF, Arora et al. 2017) and are then trained so that prose finds its function
among the others of its batch, most of them of the same packages (InfoNCE, van den Oord et al. 2018,
both directions). One thread, one seed: the result repeats on one machine.

Writes `table.npy` (int8 [V, D]), `scales.npy` (float32 [V]) and `words.txt` into TABLE.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from minilm import embed_words
from torch.nn.functional import cross_entropy, embedding_bag, normalize

SEED = 1
DIM = 256
BATCH = 1024
GROUP = 64
"""Pairs of one package that stand in a batch together: what is hard to tell apart."""
SIF = 1e-3
SCALE = 20.0
LEARNING_RATE = 3e-3
HIDE_NAME, SHOW_PATH, NAME_AS_QUERY = 0.5, 0.5, 0.1
"""Shares of pairs, drawn anew each time."""
DROP = 0.4
"""Up to this share of a function's words is left out, so that no single one decides."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Lists of word numbers, of any length."""

    words: np.ndarray
    starts: np.ndarray

    def __getitem__(self, i: int) -> np.ndarray:
        return self.words[self.starts[i] : self.starts[i + 1]]


class Pairs:
    def __init__(self, path: Path) -> None:
        arrays = np.load(path)
        self.packages: np.ndarray = arrays["packages"]
        self.vocabulary: list[str] = arrays["vocabulary"].tolist()
        self.forms: list[str] = arrays["forms"].tolist()
        self.counts: np.ndarray = arrays["counts"]
        self.sentence, self.code, self.name, self.path = (
            Texts(arrays[f"{field}_words"], arrays[f"{field}_starts"])
            for field in ("sentence", "code", "name", "path")
        )

    def __len__(self) -> int:
        return len(self.packages)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Returns one epoch: groups of a package's pairs, groups of several packages a batch."""
        order = rng.permutation(len(self))
        order = order[np.argsort(self.packages[order], kind="stable")]
        groups = [order[i : i + GROUP] for i in range(0, len(order) - GROUP + 1, GROUP)]
        rng.shuffle(groups)
        per_batch = BATCH // GROUP
        return [
            np.concatenate(groups[i : i + per_batch])
            for i in range(0, len(groups) - per_batch + 1, per_batch)
        ]

    def query(self, i: int, rng: np.random.Generator) -> np.ndarray:
        name = self.name[i]
        return name if len(name) > 1 and rng.random() < NAME_AS_QUERY else self.sentence[i]

    def document(self, i: int, rng: np.random.Generator) -> np.ndarray:
        code = self.code[i]
        if rng.random() < HIDE_NAME:
            code = code[~np.isin(code, self.name[i])]
        code = code[rng.random(len(code)) >= DROP * rng.random()]
        return np.concatenate([self.path[i], code]) if rng.random() < SHOW_PATH else code


class Table:
    """Rows and their optimiser: Adam, for the rows of a batch only."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows
        self._mean = torch.zeros_like(rows)
        self._square = torch.zeros(len(rows), 1)
        self._steps = torch.zeros(len(rows), 1)

    def update(self, words: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """One square a row rather than one an element: the row turns, it is not whitened."""
        self._steps[words] += 1
        steps = self._steps[words]
        mean = self._mean[words].lerp_(gradient, 0.1)
        square = self._square[words].lerp_(gradient.square().mean(1, keepdim=True), 0.01)
        self._mean[words], self._square[words] = mean, square
        root = (square / (1 - 0.99**steps)).sqrt_().add_(1e-8)
        self.rows[words] -= rate * mean / (1 - 0.9**steps) / root


def bags(texts: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns words, weights and where each text begins."""
    distinct = [np.unique(text, return_counts=True) for text in texts]
    words = np.concatenate([one for one, _ in distinct])
    weights = np.sqrt(np.concatenate([count for _, count in distinct]).astype(np.float32))
    starts = np.cumsum([0, *(len(one) for one, _ in distinct[:-1])])
    return torch.from_numpy(words.astype(np.int64)), torch.from_numpy(weights), torch.tensor(starts)


def step(
    table: Table, queries: list[np.ndarray], documents: list[np.ndarray], rate: float
) -> float:
    words, weights, starts = bags(queries + documents)
    distinct, local = torch.unique(words, return_inverse=True)
    rows = table.rows[distinct].requires_grad_()
    vectors = normalize(embedding_bag(local, rows, starts, mode="sum", per_sample_weights=weights))
    query, document = vectors[: len(queries)], vectors[len(queries) :]
    logits = query @ document.T * SCALE
    targets = torch.arange(len(queries))
    loss = (cross_entropy(logits, targets) + cross_entropy(logits.T, targets)) / 2
    loss.backward()
    assert rows.grad is not None
    table.update(distinct, rows.grad, rate)
    return loss.item()


def initial_rows(pairs: Pairs, minilm: Path) -> torch.Tensor:
    embedded = embed_words(minilm, pairs.forms)
    embedded -= embedded.mean(0)
    _, _, components = torch.pca_lowrank(embedded, DIM, center=False, niter=4)
    rows = normalize(embedded @ components)
    share = torch.from_numpy(pairs.counts / len(pairs)).float()
    return rows * (SIF / (SIF + share * 0.02)).unsqueeze(1).clamp_min(0.05)


def save(rows: torch.Tensor, vocabulary: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows.numpy()
    scales = np.abs(rows).max(1, keepdims=True) / 127
    np.save(folder / "table.npy", np.rint(rows / np.maximum(scales, 1e-12)).astype(np.int8))
    np.save(folder / "scales.npy", scales[:, 0].astype(np.float32))
    (folder / "words.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("minilm", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--minutes", type=float, default=7, help="of CPU, after the start rows")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    pairs = Pairs(arguments.pairs)
    table = Table(initial_rows(pairs, arguments.minilm))
    print(f"{len(pairs)} pairs, {len(pairs.vocabulary)} words", flush=True)
    start, budget = time.process_time(), arguments.minutes * 60
    epoch, losses = 0, list[float]()
    while True:
        for batch in pairs.batches(rng):
            spent = (time.process_time() - start) / budget
            if spent >= 1:
                save(table.rows, pairs.vocabulary, arguments.table)
                return
            queries = [pairs.query(i, rng) for i in batch]
            documents = [pairs.document(i, rng) for i in batch]
            losses.append(step(table, queries, documents, LEARNING_RATE * (1 - spent)))
        epoch += 1
        print(f"epoch {epoch} loss {np.mean(losses):.3f} spent {spent:.2f}", flush=True)
        losses.clear()


if __name__ == "__main__":
    main()
