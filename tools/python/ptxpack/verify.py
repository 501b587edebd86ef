"""verify.py - compares attention on random input with the library's reference in double precision, without NumPy."""
from __future__ import annotations

import ctypes
import math
import random
import struct

from .device import _attention_desc
from .library import BF16, F16, _library, _raise
from .operations import attention
from .tensor import from_host

BATCH, QUERIES, KEYS, HEADS, HEADS_KV, DIM = 1, 128, 192, 4, 2, 64
_TYPES = {"f16": (F16, 2.0**-11), "bf16": (BF16, 2.0**-8)}  # ptxpack_dtype, half a unit in the last place of 1


def _encode(kind: str, values: list[float]) -> bytes:
    """Converts numbers to bytes: rounds to f16, truncates to bf16."""
    if kind == "f16":
        return struct.pack("<%de" % len(values), *values)
    single = struct.pack("<%df" % len(values), *values)
    return b"".join(single[at + 2:at + 4] for at in range(0, len(single), 4))


def _decode(kind: str, data: bytes) -> tuple[float, ...]:
    if kind == "f16":
        return struct.unpack("<%de" % (len(data) // 2), data)
    single = b"".join(b"\0\0" + data[at:at + 2] for at in range(0, len(data), 2))
    return struct.unpack("<%df" % (len(data) // 2), single)


def _reference(kind: str, inputs: list[bytes], causal: bool) -> list[float]:
    strides = [(0, heads * DIM, DIM) for heads in (HEADS, HEADS_KV, HEADS_KV, HEADS)]
    desc = _attention_desc(_TYPES[kind][0], (BATCH, QUERIES, KEYS, HEADS, HEADS_KV, DIM), 0.0, 2 if causal else 0, 0, 0, 0.0,
                           tuple((DIM, row, head) for _, row, head in strides))
    o = (ctypes.c_double * (QUERIES * HEADS * DIM))()
    lib = _library()
    status = lib.ptxpack_attention_reference(ctypes.byref(desc), *inputs, None, o, None)
    if status:
        _raise(lib, status, lib.ptxpack_detail(None))
    return list(o)


def verify(target: str) -> bool:
    """Checks attention on the first device, whose target is given.  Prints a line for each case; returns whether all are right."""
    rng, good = random.Random(1), True
    shapes = [(BATCH, QUERIES, HEADS, DIM), (BATCH, KEYS, HEADS_KV, DIM), (BATCH, KEYS, HEADS_KV, DIM)]
    for kind, (_, unit) in _TYPES.items():
        if kind == "bf16" and target.startswith("sm_7"):
            continue  # Turing has none
        inputs = [_encode(kind, [rng.gauss(0, 1) for _ in range(math.prod(shape))]) for shape in shapes]
        for causal in (False, True):
            q, k, v = (from_host(data, shape, kind) for data, shape in zip(inputs, shapes))
            got = _decode(kind, attention(q, k, v, causal=causal).to_host())
            errors = [abs(o - want) / (1 + abs(want)) for o, want in zip(got, _reference(kind, inputs, causal))]
            right = all(error <= 4 * unit for error in errors)  # which NaN is not
            good = good and right
            print("attention %-4s %s%s: largest relative error %.1e, at most %.1e allowed: %s" % (
                kind, "x".join(map(str, shapes[0])), ", causal" if causal else "", max(errors), 4 * unit,
                "ok" if right else "WRONG"))
    return good
