"""The family that docs/inference.md adds, added."""

import re
from pathlib import Path

import pytest
import torch

from composer_inference.decoder.families import registry
from composer_inference.weights.loading import load_decoder
from tests.composer_inference.decoder.tiny import CPU, make_pool, prefill, run, save_reference

_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_example_gives_the_logits_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [example] = _EXAMPLE.findall(Path("docs/inference.md").read_text())
    assert len(example.splitlines()) < 120
    names: dict[str, object] = {}
    exec(example, names)
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, names["SEED_OSS"]))
    reference, checkpoint = save_reference("seed_oss", tmp_path, head_dim=8)
    decoder = load_decoder(checkpoint, dtype=torch.float32, device=CPU)
    tokens = [5, 17, 3, 42, 8, 8, 61]
    with torch.no_grad():
        expected = reference(torch.tensor([tokens])).logits[0]
    [logits] = run(decoder, make_pool(decoder), prefill(tokens, range(2)))
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
