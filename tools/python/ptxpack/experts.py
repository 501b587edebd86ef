"""experts.py - experts_route, experts_combine and gather: what a mixture of experts needs around matmul(group_starts=...)."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, NamedTuple, Optional

from .library import (ArgumentError, BF16, EXPERTS_F32, EXPERTS_NORMALISE, EXPERTS_RESIDUAL, F16, LAUNCH_OVERLAP, _CombineBuffers,
                      _GatherBuffers, _RouteBuffers)
from .arrays import _View, _is_compact
from .operations import _Call, _TYPES, _one_type


class Routes(NamedTuple):
    """Where rows go.  Places are sorted by expert, then by row: expert e has those from starts[e] up to starts[e + 1]."""
    starts: Any  # s32 [experts + 1]
    sources: Any  # s32 [rows top_k]: the row of each place
    places: Any  # s32 [rows, top_k]: the place of a row at each of its experts, that of the largest logit first
    weights: Any  # f32 [rows, top_k]: of these experts


def _row_stride(view: _View) -> int:
    """The elements from a row to the next of a matrix with contiguous rows, as a descriptor has them."""
    if len(view.shape) != 2 or min(view.shape) < 1 or max(view.shape) >= 2**31:
        raise ArgumentError("%s is %s, and must have 2 dimensions, each 1 or more and below 2^31" % (view.name, view.shape))
    row, column = view.strides
    if column != 1 and view.shape[1] != 1 or row < view.shape[1] and view.shape[0] != 1:
        raise ArgumentError("%s: its strides are %s, and its rows must be contiguous, one after another" % (view.name, view.strides))
    return 0 if view.shape[0] == 1 else row


def _fits(view: _View, kind: str, *shapes: tuple[int, ...]) -> int:
    """The address of a contiguous array of this type and of one of these shapes."""
    if view.kind != kind or view.shape not in shapes or not _is_compact(view):
        raise ArgumentError("%s is %s %s, and must be contiguous %s %s" % (
            view.name, view.kind, view.shape, kind, " or ".join(map(str, shapes))))
    return view.address


def _sixteen_bits(views: list[_View], dtype: Optional[str]) -> int:
    """The one type of all of them, as a descriptor has it."""
    kind = _one_type(views, dtype)
    if kind not in ("f16", "bf16"):
        raise ArgumentError("%s is %s, and must be f16 or bf16" % (views[0].name, kind))
    return _TYPES[kind]


def experts_route(logits: Any, top_k: int, *, normalise: bool = False, dtype: Optional[str] = None, out: Any = None,
                  stream: Any = None, overlap: bool = False) -> Routes:
    """Chooses the experts of each row, those of its top_k largest logits, and puts all rows in an order by expert.

    logits     [rows, experts] of f16, bf16 or f32, with contiguous rows: up to 512 experts, of which a row takes up to 16
    normalise  True: the weights of a row sum to 1; False: they are the softmax over all experts
    dtype      "bf16" or "f16": what uint16 stands for
    out        four arrays as the result has them, where it goes
    overlap    as of attention()

    The rows of x in that order are gather(x, routes.sources), and matmul(.., group_starts=routes.starts) multiplies each with the
    matrix of its expert.  All of it depends on the logits alone, also the order.
    """
    call = _Call("logits", logits, stream)
    view, most = call.first, operator.index(top_k)
    stride = _row_stride(view)
    rows, experts = view.shape
    if not 1 <= most <= min(16, experts):
        raise ArgumentError("top_k is %d, and must be from 1 to 16, at most the %d experts" % (most, experts))
    kind = F16 if view.kind == "f32" else _sixteen_bits([view], dtype)
    if out is not None and len(out) != len(Routes._fields):
        raise ArgumentError("out must be four arrays: starts, sources, places, weights")
    kinds = ("s32", (experts + 1,)), ("s32", (rows * most,)), ("s32", (rows, most)), ("f32", (rows, most))
    made = [call.output(name, None if out is None else out[i], *kinds[i]) for i, name in enumerate(Routes._fields)]
    addresses = [_fits(written, *kinds[i]) for i, (_, written) in enumerate(made)]
    options = (EXPERTS_F32 if view.kind == "f32" else 0) | (EXPERTS_NORMALISE if normalise else 0)
    plan = call.device.experts_route_plan(kind, rows, experts, most, options, stride)
    buffers = _RouteBuffers(ctypes.sizeof(_RouteBuffers), view.address, *addresses, plan.workspace(call.stream),
                            LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_experts_route(plan.pointer, ctypes.byref(buffers), call.stream))
    return Routes(*call.results(*((array, out is not None) for array, _ in made)))


def experts_combine(y: Any, places: Any, weights: Any, *, residual: Any = None, dtype: Optional[str] = None, out: Any = None,
                    stream: Any = None, overlap: bool = False) -> Any:
    """The weighted sum of what the experts of each row made of it: residual[r] + sum over j of weights[r, j] y[places[r, j]].

    y                [rows top_k, columns], in the order of experts_route(): f16 or bf16, with contiguous rows
    places, weights  those of experts_route(), s32 and f32 [rows, top_k]
    residual         [rows, columns], or None: where the sum begins
    dtype            "bf16" or "f16": what uint16 stands for
    out              where the result goes, [rows, columns]; may be residual
    overlap          as of attention()
    """
    call = _Call("y", y, stream)
    source, place, weight = call.first, call.view("places", places), call.view("weights", weights)
    begin = None if residual is None else call.view("residual", residual)
    stride = _row_stride(source)
    if len(place.shape) != 2 or place.shape[0] * place.shape[1] != source.shape[0]:
        raise ArgumentError("places is %s, and must be [rows, top_k] for the %d rows of y" % (place.shape, source.shape[0]))
    shape = place.shape[0], source.shape[1]
    if begin is not None and begin.shape != shape:
        raise ArgumentError("residual is %s, and must be %s" % (begin.shape, shape))
    made, written = call.output("out", out, source.kind, shape)
    kind = _sixteen_bits([source] if begin is None else [source, begin], dtype)
    at = [_fits(place, "s32", place.shape), _fits(weight, "f32", place.shape)]
    plan = call.device.experts_combine_plan(
        kind, *place.shape, source.shape[1], 0 if begin is None else EXPERTS_RESIDUAL, stride,
        0 if begin is None else _row_stride(begin), _row_stride(written))
    buffers = _CombineBuffers(ctypes.sizeof(_CombineBuffers), source.address, *at, 0 if begin is None else begin.address,
                              written.address, LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_experts_combine(plan.pointer, ctypes.byref(buffers), call.stream))
    return call.results((made, out is not None))[0]


def gather(table: Any, ids: Any, *, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
    """table[ids], row by row; an id that is negative or beyond the table gives zeros.

    table    [rows, columns] of f16, bf16 or uint16, with contiguous rows, whose columns are a multiple of 8
    ids      s32 [n], contiguous
    out      where the result goes, [n, columns]
    overlap  as of attention()
    """
    call = _Call("table", table, stream)
    view, index = call.first, call.view("ids", ids)
    stride = _row_stride(view)
    if len(index.shape) != 1 or not 1 <= index.shape[0] < 2**31:
        raise ArgumentError("ids is %s, and must have 1 dimension, 1 or more and below 2^31" % (index.shape,))
    made, written = call.output("out", out, view.kind, (*index.shape, view.shape[1]))
    kind = BF16 if view.kind == "u16" else _sixteen_bits([view], None)
    plan = call.device.gather_plan(kind, index.shape[0], *view.shape, 0, stride, _row_stride(written))
    buffers = _GatherBuffers(ctypes.sizeof(_GatherBuffers), _fits(index, "s32", index.shape), view.address, written.address,
                             LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_gather(plan.pointer, ctypes.byref(buffers), call.stream))
    return call.results((made, out is not None))[0]
