"""products.py - matmul: products of matrices, of batches and of groups of rows, of 16 bits and of e4m3."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

from .library import ArgumentError, E4M3, LAUNCH_OVERLAP, _GemmBuffers
from .arrays import _View, _is_compact
from .operations import _Call, _TYPES, _one_type, _type_of

_ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "silu": 3, "swiglu": 4}  # ptxpack_activation
_ROW_MAJOR, _COLUMN_MAJOR = 0, 1  # ptxpack_order


def _product_of(a: _View, b: _View) -> tuple[int, int, int, int, tuple[int, ...]]:
    """m, n, k, batch, and the shape of the result."""
    if any(len(view.shape) not in (2, 3) for view in (a, b)):
        raise ArgumentError("a is %s and b is %s: they must have 2 or 3 dimensions" % (a.shape, b.shape))
    (m, k), n = a.shape[-2:], b.shape[-1]
    batches = [view.shape[0] for view in (a, b) if len(view.shape) == 3]
    shape = ((max(batches),) if batches else ()) + (m, n)
    if min(shape) < 1 or max(shape + (k,)) >= 2**31:
        raise ArgumentError("a is %s and b is %s: extents are 1 or more, below 2^31" % (a.shape, b.shape))
    return m, n, k, max(batches, default=1), shape


def _groups_of(a: _View, b: _View, starts: _View) -> int:
    """The number of groups of rows."""
    if len(a.shape) != 2 or len(b.shape) != 3:
        raise ArgumentError("a is %s and b is %s: with group_starts they must have 2 and 3 dimensions" % (a.shape, b.shape))
    groups = b.shape[0]
    if starts.kind != "s32" or starts.shape != (groups + 1,) or not _is_compact(starts):
        raise ArgumentError("group_starts is %s %s, and must be contiguous s32 %s" % (starts.kind, starts.shape, (groups + 1,)))
    return groups


def _matrix_of(view: _View, batch: int, rows: int, columns: int,
               row_major: bool = False) -> tuple[int, int, int]:
    """ptxpack_order, the stride and the batch stride of [rows, columns] or [batch, rows, columns]."""
    fit = (rows, columns), (batch, rows, columns)
    if view.shape not in fit:
        raise ArgumentError("%s is %s, and must be %s or %s" % ((view.name, view.shape) + fit))
    row, column = view.strides[-2:]
    apart = view.strides[0] if len(view.shape) == 3 and batch > 1 else 0
    if apart == 0 and batch > 1:
        apart = -1  # the same for all
    in_rows, in_columns = column == 1 or columns == 1, (row == 1 or rows == 1) and not row_major
    if in_columns and (columns == 1 or column > 0 and not in_rows):
        return _COLUMN_MAJOR, column, apart
    if in_rows and (rows == 1 or row > 0):
        return _ROW_MAJOR, row, apart
    raise ArgumentError("%s: its strides are %s, and its %s must be contiguous" % (
        view.name, view.strides, "rows" if row_major else "rows or columns"))


# ---- e4m3 ------------------------------------------------------------------------------------------------
_TENSOR, _LINES, _BLOCKS = 0, 1, 2  # ptxpack_gemm_scales
_BLOCK = 128  # PTXPACK_SCALE_BLOCK


def _is_e4m3(view: _View) -> bool:
    return view.kind in ("e4m3", "u8")


def _result_of(call: _Call, wide: Sequence[_View], dtype: Optional[str], out: Any) -> tuple[str, str]:
    """The type of all that is not e4m3, and the result's as its array has it."""
    if wide:
        return _one_type(wide, dtype), wide[0].kind
    if out is not None:
        view = call.view("out", out)
        return _type_of(view, dtype), view.kind
    if dtype not in ("f16", "bf16"):
        raise ArgumentError("a and b are e4m3: dtype must say of which type the result is, 'f16' or 'bf16'")
    return dtype, dtype


def _scales_of(call: _Call, name: str, array: Any, of: _View, extents: tuple[int, int, int]) -> tuple[int, set[int]]:
    """The address of the scales of a matrix with so many lines, blocks of lines and blocks of k; and what they may be of."""
    if array is None:
        return 0, {_TENSOR}
    lines, line_blocks, k_blocks = extents
    own = (of.shape[0],) if len(of.shape) == 3 and of.shape[0] > 1 and of.strides[0] != 0 else ()
    view, shapes = call.view(name, array), {_TENSOR: (1,), _LINES: (*own, lines), _BLOCKS: (*own, line_blocks, k_blocks)}
    fit = {kind for kind, shape in shapes.items() if (view.shape or (1,)) == shape}
    if view.kind != "f32" or not fit or not _is_compact(view):
        raise ArgumentError("%s is %s %s, and must be contiguous f32 %s, %s or %s" % (name, view.kind, view.shape, *shapes.values()))
    return view.address, fit


def _types_of(call: _Call, a: _View, b: _View, sizes: tuple[int, int, int], scale_a: Any,
              scale_b: Any) -> tuple[dict[str, float], list[int]]:
    """The fields of a descriptor about e4m3, and the addresses of scales."""
    m, n, k = sizes
    if not _is_e4m3(b):
        if _is_e4m3(a):
            raise ArgumentError("a is %s and b is %s: with an a of e4m3 b must be e4m3, too" % (a.kind, b.kind))
        if scale_a is not None or scale_b is not None:
            raise ArgumentError("%s is for e4m3, and b is %s" % ("scale_a" if scale_b is None else "scale_b", b.kind))
        return {}, [0, 0]
    k_blocks, n_blocks = -(-k // _BLOCK), -(-n // _BLOCK)
    at_b, of_b = _scales_of(call, "scale_b", scale_b, b, (n, n_blocks, k_blocks))
    if not _is_e4m3(a):
        if scale_a is not None:
            raise ArgumentError("scale_a is for e4m3, and a is %s" % a.kind)
        return {"dtype_b": E4M3, "scales": min(of_b)}, [0, at_b]
    at_a, of_a = _scales_of(call, "scale_a", scale_a, a, (m, m, k_blocks))
    if not of_a & of_b:
        raise ArgumentError("scale_a and scale_b must both be of a matrix, of lines, or of blocks")
    return {"dtype_ab": E4M3, "scales": min(of_a & of_b)}, [at_a, at_b]


# ---- the call --------------------------------------------------------------------------------------------
def matmul(a: Any, b: Any, *, alpha: float = 1.0, beta: float = 1.0, c: Any = None, bias: Any = None,
           activation: Optional[str] = None, group_starts: Any = None, scale_a: Any = None, scale_b: Any = None,
           norm_weight: Any = None, norm_eps: float = 1e-6, dtype: Optional[str] = None, out: Any = None, stream: Any = None,
           overlap: bool = False) -> Any:
    """activation(alpha a b + beta c + bias), summed in f32.

    a, b        [m, k] and [k, n], or [batch, m, k] and [batch, k, n]; one of two dimensions, or with a batch
                stride of 0, is the same for all.  Rows or columns are contiguous, so that a transposed view
                will do; the other stride is a multiple of 8 elements
    c           [m, n] or [batch, m, n], with contiguous rows
    bias        [n], the same for all rows
    activation  "relu", "gelu" (by tanh), "silu", or without c "swiglu", silu(gate) up: of each 16 columns of b, and of bias, the
                first 8 are gates and the others what they multiply, and the result has n / 2 columns
    group_starts  s32 [groups + 1], contiguous: the products of groups of rows, as the experts of a mixture have them.  Rows from
                group_starts[g] up to group_starts[g + 1] of a [m, k] are multiplied with b[g], of b [groups, k, n] with contiguous
                columns (a transposed view of [groups, n, k]), with bias [groups, n], and without c.  It is read on the device;
                rows of the result from the last start on are not written
    scale_a, scale_b  of a and b of e4m3 (or uint8 that stands for it), both or b alone, with an a of contiguous rows and a b of
                contiguous columns: f32, contiguous: one number, also of a batch, of rows of a [m] and columns of b [n], as
                quantise() makes them of a and of b transposed, or of blocks [m, k / 128] and [n / 128, k / 128], rounded up; of the
                matrices of a batch [batch, m], ..  None: a scale of 1
    norm_weight  [k], contiguous, of a's type: norm(a, norm_weight, norm_eps) takes the place of a, of up to 32 rows, on Hopper, with a
                b of contiguous columns and a k that is a multiple of 64, of e4m3 128
    dtype       "bf16" or "f16": what uint16 stands for; of a and b of e4m3 the type of the result
    out         where the result goes: [m, n], or [batch, m, n] where a or b has three dimensions, with
                contiguous rows; may be c.  It is needed where n is no multiple of 8, with rows that lie so
    overlap     as of attention()
    """
    if activation not in _ACTIVATIONS:
        raise ArgumentError("activation is %r, and may be 'relu', 'gelu', 'silu' or 'swiglu'" % (activation,))
    call = _Call("a", a, stream)
    a, b = call.first, call.view("b", b)
    c, bias, norm = (None if x is None else call.view(name, x) for name, x in (("c", c), ("bias", bias), ("norm_weight", norm_weight)))
    starts = None if group_starts is None else call.view("group_starts", group_starts)
    m, n, k, batch, shape = _product_of(a, b)
    groups = 0 if starts is None else _groups_of(a, b, starts)
    if groups:
        batch, shape = 1, (m, n)
    narrow, scales = _types_of(call, a, b, (m, n, k), scale_a, scale_b)
    kind, stored = _result_of(call, [view for view in (a, b, c, bias, norm) if view is not None and not _is_e4m3(view)], dtype, out)
    of_bias = (groups, n) if groups else (n,)
    if bias is not None and (bias.shape != of_bias or not _is_compact(bias)):
        raise ArgumentError("bias is %s, and must be contiguous %s" % (bias.shape, of_bias))
    if norm is not None:
        if norm.shape != (k,) or not _is_compact(norm):
            raise ArgumentError("norm_weight is %s, and must be contiguous %s" % (norm.shape, (k,)))
        narrow.update(norm_a=True, norm_eps=norm_eps)
    columns = n // 2 if activation == "swiglu" else n
    made, d = call.output("out", out, stored, (*shape[:-1], columns))
    orders, strides, batches = zip(
        _matrix_of(a, batch, m, k), _matrix_of(b, groups or batch, k, n),
        _matrix_of(c, batch, m, n, row_major=True) if c is not None else (_ROW_MAJOR, 0, 0),
        _matrix_of(d, batch, m, columns, row_major=True))
    plan = call.device.gemm_plan(_TYPES[kind], m, n, k, batch, *orders[:2], *strides, *batches, c is not None,
                                 bias is not None, _ACTIVATIONS[activation], **({"groups": groups} if groups else {}), **narrow)
    addresses = [0 if view is None else view.address for view in (a, b, c, d, bias)]
    buffers = _GemmBuffers(ctypes.sizeof(_GemmBuffers), alpha, beta, *addresses, plan.workspace(call.stream),
                           LAUNCH_OVERLAP if overlap else 0, 0, *scales, *(0 if view is None else view.address for view in (starts, norm)))
    call.device.check(call.device.lib.ptxpack_gemm_launch(plan.pointer, ctypes.byref(buffers), call.stream))
    return call.results((made, out is not None))[0]
