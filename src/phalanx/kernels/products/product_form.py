"""What the kernels of `matmul` compute besides the product, as one constant: `ProductForm`."""

from __future__ import annotations

from phalanx.frozen import frozen


@frozen
class ProductForm:
    """How the arguments of a product lie, and what follows the product: what a caller asks for, not how it is cut.

    A is (M, K) if `a_by_k`, else (K, M); B is (N, K) if `b_by_k`, else (K, N). Results are stored by the copy engine if
    `tma_store`, else by threads. `bias_kind` is None, "row", "matrix" or "batch". `scale_rows` and `scale_columns`: scales
    are vectors, not single numbers. `activation` is one of `activations.ACTIVATIONS`.
    """

    a_by_k: bool = True
    b_by_k: bool = True
    tma_store: bool = True
    bias_kind: str | None = None
    scale_rows: bool = False
    scale_columns: bool = False
    activation: str | None = None
