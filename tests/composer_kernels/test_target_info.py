import pytest
import torch

from composer_kernels import DeviceError, target_from_capability, target_of
from composer_kernels.target_info import CPU, INTERPRETER


@pytest.mark.parametrize(
    ("major", "minor", "has_e4m3_casts", "has_dot_scaled"),
    [
        (8, 0, False, False),
        (8, 6, False, False),
        (8, 9, False, False),
        (9, 0, True, False),
        (10, 0, True, True),
        (10, 3, True, True),
        (12, 0, True, True),
        (12, 1, True, True),
    ],
)
def test_what_each_gpu_can_do(major: int, minor: int, has_e4m3_casts: bool, has_dot_scaled: bool):
    target = target_from_capability(major, minor)
    assert target.name == f"sm_{major}{minor}"
    assert target.capability == 10 * major + minor
    assert target.has_e4m3_casts == has_e4m3_casts
    assert target.has_dot_scaled == has_dot_scaled
    assert target.has_bf16_dot
    assert not target.interpreted


def test_a_gpu_without_bf16_is_refused():
    with pytest.raises(DeviceError, match=r"7\.5 is too old"):
        target_from_capability(7, 5)


def test_a_cpu_is_the_interpreter_where_triton_interprets(monkeypatch: pytest.MonkeyPatch):
    x = torch.empty(1)
    assert target_of(x) is INTERPRETER
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert target_of(x) is CPU


def test_a_device_without_kernels_is_refused():
    with pytest.raises(DeviceError, match="no kernel runs on meta"):
        target_of(torch.empty(1, device="meta"))
