"""Which products of a training step are computed in MXFP8."""

from dataclasses import dataclass

from composer_kernels.formats import ScaleRule


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """The format of both operands of each product; all three are linear in either operand."""

    forward: bool = True
    """y = x w^T in MXFP8, blocks along the input features; False: in x's dtype."""
    dgrad: bool = True
    """grad_x = grad_y w in MXFP8, blocks along the output features; False: in x's dtype."""
    wgrad: bool = True
    """grad_w = grad_y^T x in MXFP8, blocks along an expert's tokens; False: in x's dtype."""
    rule: ScaleRule = ScaleRule.CEIL
    """How every block's scale is chosen."""


MXFP8_RECIPE = Recipe()
"""All three products in MXFP8, E4M3 throughout, as torchao and TransformerEngine do by default."""
BF16_RECIPE = Recipe(forward=False, dgrad=False, wgrad=False)
"""The baseline: no product is quantised."""
