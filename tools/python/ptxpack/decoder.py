"""decoder.py - norm and sample: RMSNorm and the choice of tokens, which a decoder has beside attention and products."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, Callable, Optional, Sequence

from .library import (ArgumentError, F16, LAUNCH_OVERLAP, NORM_ONE_PLUS_WEIGHT, NORM_RESIDUAL, SAMPLING_F32, _NormBuffers,
                      _SamplingBuffers, _SamplingRow)
from .arrays import _View
from .experts import _fits, _row_stride, _sixteen_bits
from .operations import _Call
from .tensor import Tensor, from_host


# ---- norm --------------------------------------------------------------------------------------------------
def _vectors_of(views: Sequence[_View]) -> tuple[int, int, list[tuple[int, int]]]:
    """rows, heads and the strides of both for each array: dimensions that follow each other in all of them count as one."""
    shape = views[0].shape
    found: list[tuple[int, list[int]]] = []
    if not shape or min(shape) < 1:
        raise ArgumentError("x is %s, and must have 1 dimension or more, each 1 or more" % (shape,))
    for view in views:
        if view.strides[-1] != 1 and shape[-1] != 1:
            raise ArgumentError("%s: its last dimension has a stride of %d, and must be contiguous" % (view.name, view.strides[-1]))
    for at, extent in enumerate(shape[:-1]):
        steps = [view.strides[at] for view in views]
        if extent == 1:
            continue
        if found and all(outer == inner * extent for outer, inner in zip(found[-1][1], steps)):
            extent *= found.pop()[0]
        found.append((extent, steps))
    if len(found) > 2 or any(extent >= 2**31 for extent, _ in found):
        raise ArgumentError("x is %s with strides %s: the dimensions before the last one must lie as 1 or 2 in %s, below 2^31" % (
            shape, views[0].strides, " and ".join(view.name for view in views)))
    found += [(1, [shape[-1]] * len(views))] * (2 - len(found))  # a stride of an extent of 1 is any, but not 0
    (rows, row_steps), (heads, head_steps) = found
    strides = list(zip(row_steps, head_steps))
    for view, both in zip(views, strides):
        if not any(both):
            raise ArgumentError("%s is one row repeated along every dimension" % view.name)
    return rows, heads, strides


def norm(x: Any, weight: Any, eps: float = 1e-6, residual: Any = None, *, one_plus_weight: bool = False, dtype: Optional[str] = None,
         out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
    """RMSNorm of the last dimension: x / sqrt(mean(x^2) + eps) * weight, computed in f32 and rounded once.

    x         [..., columns] of f16 or bf16, whose columns are a multiple of 8, at most 16384, and contiguous: hidden states, or q and
              k [rows, heads, head_dim] as a projection left them.  The dimensions before the last one are free, but in memory they
              must be 1 or 2
    weight    [columns], of the same type
    residual  as x, or None.  residual + x, rounded, is WRITTEN to residual, and normalised: then the result is (out, residual)
    one_plus_weight  True: 1 + weight is the weight (Gemma)
    dtype     "bf16" or "f16": what uint16 stands for
    out       where the result goes, as x; may be x
    overlap   as of attention()
    """
    call = _Call("x", x, stream)
    view, factors = call.first, call.view("weight", weight)
    sums = None if residual is None else call.output("residual", residual, view.kind)[1]
    made, written = call.output("out", out, view.kind)
    views = [view, written] if sums is None else [view, written, sums]
    kind = _sixteen_bits([view, factors] if sums is None else [view, factors, sums], dtype)
    rows, heads, strides = _vectors_of(views)
    columns = view.shape[-1]
    options = (0 if sums is None else NORM_RESIDUAL) | (NORM_ONE_PLUS_WEIGHT if one_plus_weight else 0)
    of_sums = (0, 0) if sums is None else strides[2]
    plan = call.device.norm_plan(kind, rows, heads, columns, options, float(eps), (strides[0], of_sums, strides[1]))
    buffers = _NormBuffers(ctypes.sizeof(_NormBuffers), view.address, _fits(factors, factors.kind, (columns,)),
                           0 if sums is None else sums.address, written.address, LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_norm(plan.pointer, ctypes.byref(buffers), call.stream))
    results = call.results((made, out is not None), *(() if sums is None else ((residual, True),)))
    return results[0] if sums is None else results


# ---- sample ------------------------------------------------------------------------------------------------
_ROW = ctypes.sizeof(_SamplingRow)


def _of_rows(name: str, value: Any, rows: int, convert: Callable[[Any], Any], fits: Callable[[Any], bool], range_of: str) -> list[Any]:
    """A number for each row, of one for all or of as many in host memory."""
    if hasattr(value, "__cuda_array_interface__"):
        raise ArgumentError("%s is on a device, and must be in host memory: sampling_parameters() makes what is on a device" % name)
    value = value.tolist() if hasattr(value, "tolist") else value
    many = list(value) if isinstance(value, (list, tuple)) else [value] * rows
    if len(many) != rows:
        raise ArgumentError("%s has %d numbers, and must have one for each of the %d rows" % (name, len(many), rows))
    numbers = []
    for number in many:
        try:
            numbers.append(convert(number))
        except (TypeError, ValueError, OverflowError):
            numbers.append(None)
        if numbers[-1] is None or not fits(numbers[-1]):
            raise ArgumentError("%s is %r, and must be %s" % (name, number, range_of))
    return numbers


def _parameters(rows: int, temperature: Any, top_p: Any, top_k: Any, seed: Any, counter: Any) -> Optional[bytes]:
    """What the kernel reads for each row; None if all of them are greedy."""
    whole = "a whole number from 0 on, below 2^%d"
    temperatures = _of_rows("temperature", temperature, rows, float, lambda t: 0 <= t < 2.0**127, "a number from 0 on, below 2^127")
    most = _of_rows("top_p", top_p, rows, float, lambda p: 0 < p <= 1, "a number above 0, at most 1")
    best = _of_rows("top_k", top_k, rows, operator.index, lambda k: 0 <= k < 2**31, whole % 31)
    if seed is None and any(temperatures):
        raise ArgumentError("seed is missing: a temperature above 0 wants one")
    is_one = hasattr(seed, "__index__") and not hasattr(seed, "tolist")
    seeds = _of_rows("seed", 0 if seed is None else seed, rows, operator.index, lambda s: 0 <= s < 2**64, whole % 64)
    if is_one:
        seeds = [(s + row) % 2**64 for row, s in enumerate(seeds)]
    counters = _of_rows("counter", counter, rows, operator.index, lambda c: 0 <= c < 2**64, whole % 64)
    return b"".join(bytes(_SamplingRow(t, p, k, 0, s, c)) for t, p, k, s, c in zip(
        temperatures, most, best, seeds, counters)) if any(temperatures) else None


def sampling_parameters(rows: int, temperature: Any = 1.0, top_p: Any = 1.0, top_k: Any = 0, *, seed: Any = None, counter: Any = 0,
                        device: int = 0) -> Tensor:
    """What sample(parameters=...) draws with: a Tensor u8 [rows, 32] on a device, ptxpack_sampling_row for each row.

    The arguments are those of sample().  Each call of sample() adds 1 to the counters, so that one Tensor serves all steps, also
    those of a captured graph; a program may write to it between them."""
    count = operator.index(rows)
    if not 1 <= count < 2**31:
        raise ArgumentError("rows is %d, and must be 1 or more, below 2^31" % count)
    data = _parameters(count, temperature, top_p, top_k, seed, counter)
    return from_host(bytes(_ROW * count) if data is None else data, (count, _ROW), "u8", device)


def _are_left(*values: Any) -> bool:
    """Whether temperature, top_p, top_k, seed and counter were left as they are."""
    return all(value is default or isinstance(value, (int, float)) and value == default
               for value, default in zip(values, (0.0, 1.0, 0, None, 0)))


def sample(logits: Any, temperature: Any = 0.0, top_p: Any = 1.0, top_k: Any = 0, *, seed: Any = None, counter: Any = 0,
           parameters: Any = None, dtype: Optional[str] = None, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
    """Chooses a token from each row of logits: s32 [rows].  sample(logits) is greedy, the first index of the maximum.

    logits       [rows, vocabulary] of f16, bf16 or f32, with contiguous rows, up to 2^21 columns
    temperature  0: greedy; above: tokens are drawn from softmax(logits / temperature)
    top_p        of the likeliest tokens, which together have so much of the probability; 1: of all
    top_k        of so many tokens, with those that are as likely as the last one, before top_p; 0: of all
    seed         for rows with a temperature above 0.  A number: row r has seed + r
    counter      the number of the draw: the same seed and counter draw the same, so that each call of a sequence wants another one
    parameters   instead of these: what sampling_parameters() makes.  Each call adds 1 to its counters
    dtype        "bf16" or "f16": what uint16 stands for
    out          where the tokens go, s32 [rows], contiguous
    overlap      as of attention()

    temperature, top_p, top_k, seed and counter are a number for all rows, or a list or array in host memory with one for each.  A
    captured graph keeps them, but for the counters, which each of its launches adds 1 to.  A row's token depends on that row alone,
    and is the same on all devices, and of ptxpack_sampling_reference.
    """
    call = _Call("logits", logits, stream)
    view = call.first
    stride = _row_stride(view)
    rows, vocabulary = view.shape
    kind = F16 if view.kind == "f32" else _sixteen_bits([view], dtype)
    data = None
    if parameters is None:
        data = _parameters(rows, temperature, top_p, top_k, seed, counter)
    elif not _are_left(temperature, top_p, top_k, seed, counter):
        raise ArgumentError("parameters has temperature, top_p, top_k, seed and counter: they cannot be given, too")
    given = None if parameters is None else call.output("parameters", parameters, "u8", (rows, _ROW))[1]
    made, written = call.output("out", out, "s32", (rows,))
    addresses = [0 if given is None else _fits(given, "u8", (rows, _ROW)), _fits(written, "s32", (rows,))]
    plan = call.device.sampling_plan(kind, rows, vocabulary, SAMPLING_F32 if view.kind == "f32" else 0, 0, stride)
    if data is not None:
        call.keep(data)
        addresses[0] = plan.copied("parameters", data, call.stream)
    buffers = _SamplingBuffers(ctypes.sizeof(_SamplingBuffers), view.address, *addresses, LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_sampling(plan.pointer, ctypes.byref(buffers), call.stream))
    return call.results((made, out is not None), *(() if parameters is None else ((parameters, True),)))[0]
