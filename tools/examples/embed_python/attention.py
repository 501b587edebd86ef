"""attention.py - ptxpack's attention on the arrays of whichever library there is.

  PYTHONPATH=PREFIX/share/ptxpack/python python3 attention.py [torch | cupy | jax | bytes]

Without an argument the first of them that is installed and sees a GPU; "bytes" needs none, and no GPU either
with PTXPACK_DEVICE=emu."""
import importlib
import math
import random
import struct
import sys

import ptxpack

BATCH, QUERIES, KEYS, HEADS, HEADS_KV, DIM = 1, 50, 70, 4, 2, 64
SHAPES = [(BATCH, QUERIES, HEADS, DIM), (BATCH, KEYS, HEADS_KV, DIM), (BATCH, KEYS, HEADS_KV, DIM)]


def with_torch(torch):
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for shape in SHAPES)
    o = ptxpack.attention(q, k, v, causal=True)  # on the current stream; o is a tensor
    return o[0, :, 0].tolist(), [x[0, :, 0].tolist() for x in (q, k, v)]


def with_cupy(cupy):
    q, k, v = (cupy.random.standard_normal(shape, dtype="f4").astype(cupy.float16) for shape in SHAPES)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        o = ptxpack.attention(q, k, v, causal=True)  # on the current stream
        stream.synchronize()
    return o[0, :, 0].tolist(), [x[0, :, 0].tolist() for x in (q, k, v)]


def with_jax(jax):
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    q, k, v = (jax.random.normal(key, shape, dtype="bfloat16") for key, shape in zip(keys, SHAPES))
    o = ptxpack.attention(q, k, v, causal=True)  # a new array, outside of jit
    return o[0, :, 0].tolist(), [x[0, :, 0].tolist() for x in (q, k, v)]


def with_bytes(_):
    """Host memory of one's own, such as NumPy's, goes to the device and back by two calls."""
    lists = [[random.gauss(0, 1) for _ in range(math.prod(shape))] for shape in SHAPES]
    q, k, v = (ptxpack.from_host(struct.pack("<%de" % len(values), *values), shape, "f16")
               for values, shape in zip(lists, SHAPES))
    o = ptxpack.attention(q, k, v, causal=True)

    def first_head(tensor):
        values = struct.unpack("<%de" % math.prod(tensor.shape), tensor.to_host())
        heads, dim = tensor.shape[2:]
        return [values[at:at + dim] for at in range(0, len(values), heads * dim)]
    return first_head(o), [first_head(x) for x in (q, k, v)]


def largest_error(o, q, k, v):
    """Of one head, as lists of rows, against the definition."""
    worst = 0.0
    for i, query in enumerate(q):
        scores = [sum(map(float.__mul__, query, key)) / math.sqrt(DIM) for key in k[:i + 1 + KEYS - QUERIES]]
        weights = [math.exp(score - max(scores)) for score in scores]
        for d in range(DIM):
            want = sum(weight * row[d] for weight, row in zip(weights, v)) / sum(weights)
            worst = max(worst, abs(want - o[i][d]))
    return worst


def find(name):
    """The library, when it is there and sees a GPU."""
    try:
        library = importlib.import_module(name)
        if name == "torch":
            return library if library.cuda.is_available() else None
        if name == "cupy":
            return library if library.cuda.runtime.getDeviceCount() else None
        return library if library.devices("gpu") else None
    except Exception:  # each has its own way to say that there is no GPU
        return None


def main():
    ways = {"torch": with_torch, "cupy": with_cupy, "jax": with_jax}
    wanted = sys.argv[1] if len(sys.argv) > 1 else next((name for name in ways if find(name)), "bytes")
    if wanted != "bytes" and (wanted not in ways or not find(wanted)):
        return "%s is not one of torch, cupy, jax and bytes, or is not installed, or sees no GPU" % wanted
    try:
        o, inputs = ways.get(wanted, with_bytes)(find(wanted) if wanted in ways else None)
    except ptxpack.Error as error:  # one line that names the culprit
        return "%s: %s" % (error.status, error)
    worst = largest_error(o, *inputs)
    print("%s on %s: largest error %.1e" % (wanted, ptxpack.info()["name"], worst))
    return 0 if worst < 2e-2 else 1


sys.exit(main())
