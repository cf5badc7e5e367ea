"""`composer-lsp model quantize` and `upcycle` as processes."""

import json
from pathlib import Path

import pytest

from composer_lsp.cli import convert
from composer_lsp.cli.main import main
from tests.composer_inference.decoder.tiny import save_reference
from tests.composer_lsp.cli.conftest import Cli


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "dense"
    save_reference("qwen2", folder)
    return folder


def test_a_dense_model_becomes_a_mixture_in_mxfp8(cli: Cli, dense: Path, tmp_path: Path) -> None:
    mixture, small = tmp_path / "mixture", tmp_path / "small"
    numbers = ("--experts", "8", "--top-k", "4", "--split")
    made = cli("model", "upcycle", str(dense), str(mixture), *numbers)
    assert (made.returncode, made.stdout) == (0, f"the model is in {mixture}\n"), made.stderr
    config = json.loads((mixture / "config.json").read_text())
    assert (config["n_routed_experts"], config["num_experts_per_tok"]) == (8, 4)
    assert config["moe_intermediate_size"] == 80 // 4

    quantized = cli("model", "quantize", str(mixture), str(small), "--json")
    assert quantized.returncode == 0, quantized.stderr
    events = [json.loads(line) for line in quantized.stdout.splitlines()]
    assert events[-1] == {"event": "done", "path": str(small)}
    assert events[-2]["done_bytes"] == events[-2]["total_bytes"] > 0
    entry = json.loads((small / "config.json").read_text())["quantization_config"]
    assert entry["quant_method"] == "mxfp8"


def test_errors_are_told_in_a_line(cli: Cli, dense: Path, tmp_path: Path) -> None:
    cases = [
        (["quantize", str(dense), str(tmp_path / "new")], "has no experts"),
        (["quantize", "nonesuch", str(tmp_path / "new")], "nonesuch"),
        (["quantize", "./nonesuch", str(tmp_path / "new")], "nonesuch is neither a folder"),
        (["upcycle", str(dense), str(dense), "--experts=2", "--top-k=1"], "is there already"),
        (["upcycle", str(dense), str(tmp_path / "new"), "--experts=2", "--top-k=3"], "top-k is 3"),
    ]
    for arguments, message in cases:
        done = cli("model", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("action", ["quantize", "upcycle"])
def test_without_torch(
    action: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(convert, "find_spec", {"gguf": "there"}.get)
    numbers = ["--experts", "2", "--top-k", "1"] if action == "upcycle" else []
    assert main(["model", action, str(tmp_path), str(tmp_path / "new"), *numbers]) == 1
    told = capsys.readouterr().err
    assert f"{action} needs jaxtyping, safetensors, torch; install with: " in told
    assert "pip install 'composer-lsp[torch]'" in told
