"""quantise.py - quantise and dequantise: matrices of 16 bits to e4m3 with scales, and back."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from .library import ArgumentError, LAUNCH_OVERLAP, QUANTISE_BLOCKS, QUANTISE_POWERS, _QuantiseBuffers
from .arrays import _View
from .experts import _fits, _row_stride, _sixteen_bits
from .operations import _Call

_BLOCK = 128  # PTXPACK_QUANTISE_BLOCK


def _shapes(codes: _View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of scales of rows, and of blocks."""
    rows, columns = codes.shape
    return (rows,), (rows, -(-columns // _BLOCK))


def _launch(call: _Call, way: str, x: _View, codes: _View, scales: int, fields: tuple[int, int], overlap: bool) -> None:
    """`fields`: dtype and options of the descriptor."""
    dtype, options = fields
    plan = getattr(call.device, way + "_plan")(dtype, *x.shape, options, 0, _row_stride(x), _row_stride(codes))
    buffers = _QuantiseBuffers(ctypes.sizeof(_QuantiseBuffers), x.address, codes.address, scales, LAUNCH_OVERLAP if overlap else 0)
    call.device.check(getattr(call.device.lib, "ptxpack_" + way)(plan.pointer, ctypes.byref(buffers), call.stream))


def quantise(x: Any, *, blocks: bool = False, powers: bool = False, dtype: Optional[str] = None, out: Any = None, scales: Any = None,
             stream: Any = None, overlap: bool = False) -> tuple[Any, Any]:
    """Rounds a matrix to e4m3, with a scale for each row or block: (codes, scales), where x is about codes times scales.

    x        [rows, columns] of f16 or bf16, with contiguous rows, whose columns are a multiple of 16
    blocks   False: scales f32 [rows]; True: [rows, columns / 128, rounded up], one for each 128 elements of a row
    powers   False: the largest of a row or block becomes 448, the largest of e4m3; True: scales are powers of two
    dtype    "bf16" or "f16": what uint16 stands for
    out      where the codes go, [rows, columns] of e4m3 or uint8
    scales   where the scales go, contiguous
    overlap  as of attention()
    """
    call = _Call("x", x, stream)
    view = call.first
    _row_stride(view)
    made, codes = call.output("out", out, "e4m3", view.shape)
    shape = _shapes(view)[blocks]
    made_scales, written = call.output("scales", scales, "f32", shape)
    options = (QUANTISE_BLOCKS if blocks else 0) | (QUANTISE_POWERS if powers else 0)
    _launch(call, "quantise", view, codes, _fits(written, "f32", shape), (_sixteen_bits([view], dtype), options), overlap)
    of_codes, of_scales = call.results((made, out is not None), (made_scales, scales is not None))
    return of_codes, of_scales


def dequantise(codes: Any, scales: Any, *, dtype: Optional[str] = None, out: Any = None, stream: Any = None,
               overlap: bool = False) -> Any:
    """Codes times scales, rounded to f16 or bf16; what is too large becomes infinite.

    codes    [rows, columns] of e4m3, or uint8 that stands for it, with contiguous rows, whose columns are a multiple of 16
    scales   f32 [rows], or of blocks [rows, columns / 128, rounded up], contiguous
    dtype    "bf16" or "f16": of the result, also where `out` is uint16
    out      where the result goes, [rows, columns]; without a dtype the result has its type
    overlap  as of attention()
    """
    call = _Call("codes", codes, stream)
    view, factors = call.first, call.view("scales", scales)
    _row_stride(view)
    if view.kind not in ("e4m3", "u8"):
        raise ArgumentError("codes is %s, and must be e4m3, or u8 that stands for it" % view.kind)
    of_rows, of_blocks = _shapes(view)
    at = _fits(factors, "f32", of_rows, of_blocks)
    if out is None and dtype not in ("f16", "bf16"):
        raise ArgumentError("dtype is %r, and must say of which type the result is, 'f16' or 'bf16'" % (dtype,))
    kind = call.view("out", out).kind if out is not None else dtype
    made, written = call.output("out", out, str(kind), view.shape)
    options = QUANTISE_BLOCKS if factors.shape == of_blocks else 0
    _launch(call, "dequantise", written, view, at, (_sixteen_bits([written], dtype), options), overlap)
    return call.results((made, out is not None))[0]
