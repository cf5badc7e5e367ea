"""Kernels against their twins on one device, on fresh random inputs, in memory that is poisoned.

Each check raises `AssertionError` that says what differs. Where a result is exact, bits are
compared; elsewhere the bound's reason stands beside it.
"""

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from benchmarks.operands import Draw, Operand, dequantize, in_format, poisoned_memory
from composer_kernels import (
    BF16_RECIPE,
    GPT_OSS,
    MXFP8_RECIPE,
    SILU,
    Dispatch,
    ExpertWeights,
    GroupScore,
    Kind,
    MXFP4Tensor,
    MXFP8Tensor,
    Recipe,
    RouterConfig,
    ScaleRule,
    Scoring,
    choose_tiles,
    combine,
    combine_backward,
    dispatch,
    expert_layer,
    expert_layer_with_grad,
    grouped_gemm,
    grouped_gemm_quantized,
    mxfp4_dequantize,
    mxfp8_dequantize,
    mxfp8_quantize,
    permute,
    quantize_experts,
    reference,
    route,
    target_of,
)

ROUND_BF16 = 2.0**-8
"""Two roundings to bf16 of numbers that hardly differ lie at most one last place apart."""
UNIT_F32 = 2.0**-23
"""A tensor core's sum may drop what it shifts out, so a step's error is a whole last place."""

Check = Callable[[Draw], None]


def checks(*, quick: bool) -> dict[str, Check]:
    """By name, in the order to run them."""
    found: dict[str, Check] = {
        "quantise: every bf16 number": _every_bf16,
        "quantise: ties and their neighbours": _ties,
        "quantise: random, rows and columns": _quantise_random,
        "dequantise: every code times every scale": _dequantise_every_code,
        "route": _route,
        "dispatch, permute, combine": _permutation,
    }
    for kind in Kind:
        for rows in (3, 300) if not quick else (300,):
            name = f"grouped GEMM: {kind}, {rows} tokens"
            found[name] = lambda draw, kind=kind, rows=rows: _grouped_gemm(draw, kind, rows)
    found["grouped GEMM: quantised output"] = _quantised_output
    for fmt in ("bf16", "mxfp8", "mxfp4", "all mxfp8"):
        found[f"experts' layer: {fmt}"] = lambda draw, fmt=fmt: _layer(draw, fmt)
    for name, recipe in {"bf16": BF16_RECIPE, "mxfp8": MXFP8_RECIPE}.items():
        found[f"backward: {name}"] = lambda draw, recipe=recipe: _backward(draw, recipe)
    found["the same bits twice, and as a CUDA graph"] = _repeats
    return found


def _every_bf16(draw: Draw) -> None:
    """Each of the 65,536 in turn as the largest of a block that it shares with zeros, and together."""
    bits = torch.arange(65536, dtype=torch.int32, device=draw.device)
    values = bits.to(torch.int16).view(torch.bfloat16)
    alone = torch.zeros(65536, 32, dtype=torch.bfloat16, device=draw.device)
    alone[:, 5] = values
    for x, rule in product((alone, values.reshape(-1, 64)), ScaleRule):
        with poisoned_memory():
            actual = mxfp8_quantize(x, rule=rule)
        same_codes(actual, reference.mxfp8_quantize(x, rule=rule))


def _ties(draw: Draw) -> None:
    """The middle of each two E4M3 numbers, and the f32 on either side, in blocks of scale 1."""
    codes = torch.arange(0x7F, dtype=torch.uint8, device=draw.device)
    values = codes.view(torch.float8_e4m3fn).float()
    middles = (values[1:] + values[:-1]) / 2
    zero = torch.zeros((), device=draw.device)
    around = torch.cat([middles, middles.nextafter(zero), middles.nextafter(zero + 1e9)])
    around = torch.cat([around, -around])
    x = torch.zeros(len(around), 32, device=draw.device)
    x[:, 0], x[:, 1] = 256.0, around
    with poisoned_memory():
        actual = mxfp8_quantize(x)
    same_codes(actual, reference.mxfp8_quantize(x))


def _quantise_random(draw: Draw) -> None:
    for shape, dtype, rule in product(
        ((1, 32), (67, 101), (256, 2048), (2, 33, 96)), (torch.bfloat16, torch.float32), ScaleRule
    ):
        x = draw.wide(*shape).to(dtype)
        x[..., 0, 7] = torch.nan
        x[..., 0, 31] = -torch.inf
        with poisoned_memory():
            rows, columns = mxfp8_quantize(x, rule=rule, columns=True)
            alone = mxfp8_quantize(x, rule=rule)
        expected_rows, expected_columns = reference.mxfp8_quantize(x, rule=rule, columns=True)
        same_codes(rows, expected_rows)
        same_codes(alone, expected_rows)
        same_codes(columns, expected_columns)


def _dequantise_every_code(draw: Draw) -> None:
    bytes_ = torch.arange(256, dtype=torch.uint8, device=draw.device)
    codes = bytes_.expand(256, 256).contiguous()
    mxfp8 = MXFP8Tensor(
        codes.view(torch.float8_e4m3fn), bytes_[:, None].expand(256, 8).contiguous()
    )
    mxfp4 = MXFP4Tensor(codes, bytes_[:, None].expand(256, 16).contiguous())
    for dtype in (torch.float32, torch.bfloat16):
        with poisoned_memory():
            from_mxfp8 = mxfp8_dequantize(mxfp8, dtype=dtype)
            from_mxfp4 = mxfp4_dequantize(mxfp4, dtype=dtype)
        same_bits(from_mxfp8, reference.mxfp8_dequantize(mxfp8, dtype=dtype))
        same_bits(from_mxfp4, reference.mxfp4_dequantize(mxfp4, dtype=dtype))


_ROUTERS = {
    "softmax": (128, RouterConfig(top_k=8, scoring=Scoring.SOFTMAX, normalize=True)),
    "softmax of the chosen": (32, RouterConfig(top_k=4, scoring=Scoring.SOFTMAX_OF_CHOSEN)),
    "sigmoid, groups, bias": (
        256,
        RouterConfig(
            top_k=8,
            scoring=Scoring.SIGMOID,
            normalize=True,
            routed_scaling_factor=2.5,
            num_groups=8,
            topk_groups=4,
            group_score=GroupScore.TOP2_SUM,
        ),
    ),
}


def _route(draw: Draw) -> None:
    for name, (num_experts, config) in _ROUTERS.items():
        for num_tokens in (1, 777):
            logits = draw.normal(num_tokens, num_experts)
            bias = 0.1 * draw.normal(num_experts) if config.num_groups > 1 else None
            with poisoned_memory():
                weights, ids = route(logits, config, bias_E=bias)
            expected_weights, expected_ids = reference.route(logits, config, bias_E=bias)
            # Ranked by logit, the choice is exact. Scores with a bias differ in their last place
            # where devices round exp differently, and may then change places.
            wrong = (ids != expected_ids).any(-1)
            assert int(wrong.sum()) <= (0 if bias is None else num_tokens // 100), (
                f"{name}: {int(wrong.sum())} of {num_tokens} tokens choose otherwise"
            )
            # exp and a sum of K or E terms: some last places.
            close = torch.isclose(weights, expected_weights, rtol=1e-5, atol=1e-7)
            assert bool((close | wrong[:, None]).all()), f"{name}: weights differ"


def _permutation(draw: Draw) -> None:
    for num_tokens, top_k, first, block_m in ((1, 8, 0, 16), (1000, 8, 32, 64), (5, 1, 0, 128)):
        ids, weights = draw.choices(num_tokens, 128, top_k)
        with poisoned_memory():
            plan = dispatch(ids, weights, 128, block_m, first_local_expert=first)
        expected = reference.dispatch(
            ids,
            weights,
            128,
            block_m,
            first_local_expert=first,
            num_local_experts=128 - first,
        )
        for field in (
            "token_of_row",
            "row_of_slot",
            "expert_of_block",
            "block_offsets",
            "num_tokens_per_expert",
        ):
            same_bits(getattr(plan, field), getattr(expected, field))
        x = draw.normal(num_tokens, 96).bfloat16()
        with poisoned_memory():
            y = permute(x, plan)
            out = combine(y, plan)
            grad_y, grad_weights = combine_backward(x, y, plan)
        same_bits(y, reference.permute(x, plan))
        # f32 products and sums in the same order; contraction to fma rounds less often.
        close(out, reference.combine(y, plan), 2 * ROUND_BF16)
        expected_grad_y, expected_grad_weights = reference.combine_backward(x, y, plan)
        same_bits(grad_y, expected_grad_y)
        absolute = reference.combine_backward(x.abs(), y.abs(), plan)[1]
        within(grad_weights, expected_grad_weights, 96 * UNIT_F32 * absolute)


def _grouped_gemm(draw: Draw, kind: Kind, num_tokens: int) -> None:
    E, N, K = 7, 160, 256
    target = target_of(torch.empty(0, device=draw.device))
    block_m = 16
    if target.capability:
        block_m = choose_tiles(target, kind, -(-num_tokens // E), N, K).block_m
    plan = draw.uneven_plan(num_tokens, E, block_m)
    with_rows = plan.token_of_row >= 0

    x, w = draw.exact(kind, num_tokens, E, N, K)
    with poisoned_memory():
        y = grouped_gemm(x, w, plan, gather=True, out_dtype=torch.float32)
    same_bits(y, reference.grouped_gemm(x, w, plan, gather=True, out_dtype=torch.float32))
    assert not bool(y[~with_rows].any()), "padding is not zero"

    for inner, bias in ((K, None), (K - 64, draw.normal(E, N)), (96, None)):
        x, w = draw.real(kind, plan.num_rows, E, N, inner)
        with poisoned_memory():
            y = grouped_gemm(x, w, plan, bias_EN=bias, out_dtype=torch.float32)
        expected = reference.grouped_gemm(x, w, plan, bias_EN=bias, out_dtype=torch.float32)
        within(y, expected, _sum_error(x, w, plan, bias))

    x, w = draw.real(kind, num_tokens, E, N, K)
    for activation in (SILU, GPT_OSS):
        with poisoned_memory():
            y = grouped_gemm(x, w, plan, gather=True, activation=activation)
        expected = reference.grouped_gemm(x, w, plan, gather=True, activation=activation)
        close(y, expected, ROUND_BF16)


def _quantised_output(draw: Draw) -> None:
    kind = Kind.MXFP8_MXFP8
    plan = draw.uneven_plan(300, 7, 128)
    x, w = draw.exact(kind, 300, 7, 192, 256)
    with poisoned_memory():
        y = grouped_gemm_quantized(x, w, plan, gather=True)
    same_codes(y, reference.grouped_gemm_quantized(x, w, plan, gather=True))


def _layer(draw: Draw, fmt: str) -> None:
    T, top_k, E, D, F = 65, 2, 8, 256, 96
    plain = ExpertWeights(gate_up=draw.bf16(E, 2 * F, D), down=draw.bf16(E, D, F))
    weights = plain
    if "mxfp8" in fmt:
        weights = quantize_experts(plain)
    if fmt == "mxfp4":
        codes = [in_format(dequantize(w), fmt) for w in (plain.gate_up, plain.down)]
        weights = ExpertWeights(gate_up=codes[0], down=codes[1])
    ids, topk_weights = draw.choices(T, E, top_k)
    x = draw.normal(T, D).bfloat16()
    quantize = fmt == "all mxfp8"
    with poisoned_memory():
        y = expert_layer(x, ids, topk_weights, weights, quantize_activations=quantize)
    expected = reference.expert_layer(x, ids, topk_weights, weights, quantize_activations=quantize)
    # Sums that differ in their last f32 place round otherwise now and then: to the next bf16 or
    # E4M3 number. The whole error stays below one rounding of the output.
    close(y, expected, ROUND_BF16)


def _backward(draw: Draw, recipe: Recipe) -> None:
    T, top_k, E, D, F = 200, 2, 4, 128, 64
    ids, topk_weights = draw.choices(T, E, top_k)
    operands = (
        draw.normal(T, D).bfloat16(),
        topk_weights,
        draw.bf16(E, 2 * F, D),
        draw.bf16(E, D, F),
    )
    grad_out = draw.normal(T, D).bfloat16()

    def gradients(layer: Callable[..., Tensor]) -> list[Tensor]:
        leaves = [each.clone().requires_grad_() for each in operands]
        x, scores, gate_up, down = leaves
        weights = ExpertWeights(gate_up=gate_up, down=down)
        y = layer(x, ids, scores, weights, recipe=recipe)
        return list(torch.autograd.grad(y, leaves, grad_out))

    with poisoned_memory():
        actual = gradients(expert_layer_with_grad)
    expected = gradients(reference.expert_layer_with_grad)
    for ours, theirs in zip(actual, expected, strict=True):
        # Some operands round otherwise, as in the forward pass; each then errs by 2^-3 in MXFP8.
        close(ours, theirs, 4 * ROUND_BF16)


def _repeats(draw: Draw) -> None:
    E, D, F = 8, 256, 96
    weights = quantize_experts(
        ExpertWeights(gate_up=draw.bf16(E, 2 * F, D), down=draw.bf16(E, D, F))
    )
    ids, topk_weights = draw.choices(33, E, 2)
    x = draw.normal(33, D).bfloat16()

    def run() -> Tensor:
        return expert_layer(x, ids, topk_weights, weights, quantize_activations=True)

    first = run()
    same_bits(run(), first)
    if draw.device == "cpu":
        return
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # Fails if anything waits for the device.
        captured = run()
    captured.zero_()
    graph.replay()
    torch.cuda.synchronize()
    same_bits(captured, first)


def _sum_error(x: Operand, w: Operand, plan: Dispatch, bias: Tensor | None) -> Tensor:
    """How far two f32 evaluations of `x w^T + bias` may lie apart in any order: each errs by at most
    n u sum |x| |w|, with n = K + 1 roundings (Higham, "Accuracy and Stability", section 3.1)."""
    absolute = reference.grouped_gemm(
        dequantize(x).abs(),
        dequantize(w).abs(),
        plan,
        bias_EN=None if bias is None else bias.abs(),
        out_dtype=torch.float32,
    )
    return 2 * (w.shape[-1] + 1) * UNIT_F32 * absolute


def same_codes(actual: MXFP8Tensor, expected: MXFP8Tensor) -> None:
    same_bits(actual.codes.view(torch.uint8), expected.codes.view(torch.uint8), "codes")
    same_bits(actual.scales, expected.scales, "scales")


def same_bits(actual: Tensor, expected: Tensor, name: str = "values") -> None:
    """Equal, signs of zeros too; one NaN is like another."""
    assert actual.shape == expected.shape, f"{name} have shape {list(actual.shape)}"
    if actual.is_floating_point():
        nan = expected.isnan()
        assert torch.equal(actual.isnan(), nan), f"{name}: NaN differs"
        actual, expected = actual.masked_fill(nan, 0.0), expected.masked_fill(nan, 0.0)
        assert torch.equal(actual.signbit(), expected.signbit()), f"{name}: signs differ"
    wrong = int((actual != expected).sum())
    assert wrong == 0, f"{wrong} of {actual.numel()} {name} differ"


def within(actual: Tensor, expected: Tensor, bound: Tensor) -> None:
    """Elementwise, and nowhere NaN."""
    error = (actual.float() - expected.float()).abs()
    wrong = ~(error <= bound)
    assert not bool(wrong.any()), (
        f"{int(wrong.sum())} of {error.numel()} values are off, by up to {float(error.max()):.3g}"
    )


def close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """The root mean square of the error against that of the values."""
    assert actual.shape == expected.shape, f"shape {list(actual.shape)}"
    squares = (actual.float() - expected.float()).square().sum()
    error = float((squares / expected.float().square().sum()).sqrt())
    assert error <= tolerance, f"relative error {error:.2e}, above {tolerance:.2e}"
