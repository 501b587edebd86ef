"""frameworks.py - tools/python/ptxpack with the real PyTorch, CuPy, JAX and Numba on a GPU: each
that is installed, against a reference in f32 by itself.  A line for each case; the exit status is 1 when one
is wrong, and 77 when no library is there or none sees a GPU.

  make lib && python3 tests/python/frameworks.py [torch] [cupy] [jax] [numba]"""
import importlib
import math
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))
import ptxpack  # noqa: E402

cases = {}
Q, KV = (2, 150, 8, 64), (2, 201, 4, 64)  # [batch, sequence, head, dim]
LATE = KV[1] - Q[1]


def case(function):
    library, _, name = function.__name__.partition("_")
    cases.setdefault(library, []).append((name.replace("_", " "), function))
    return function


def near(got, want, bound):
    """The numbers of nested lists."""
    if isinstance(got, list):
        assert len(got) == len(want), "%d values, not %d" % (len(got), len(want))
        return max(near(g, w, bound) for g, w in zip(got, want))
    assert got == want or abs(got - want) <= bound * (1 + abs(want)), "%r, not %r" % (got, want)
    return abs(got - want) if got != want else 0.0


BOUND = {"float16": 4e-3, "bfloat16": 3e-2, "float8_e4m3fn": 0.15}


# ---- PyTorch -----------------------------------------------------------------------------------------------
def torch_inputs(torch, dtype=None, shape_q=Q, shape_kv=KV):
    torch.manual_seed(1)
    dtype = dtype or torch.bfloat16
    return [torch.randn(shape, device="cuda").to(dtype) for shape in (shape_q, shape_kv, shape_kv)]


def torch_reference(torch, q, k, v, visible=None, softcap=0.0):
    """Returns o and lse of [batch, sequence, head, dim] in f32."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if visible is not None:
        i, j = torch.arange(q.shape[2], device="cuda")[:, None], torch.arange(k.shape[2], device="cuda")
        scores = scores.masked_fill(~visible(i, j), -math.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2), torch.logsumexp(scores, -1)


def torch_check(torch, o, want, dtype):
    return near(o.float().tolist(), want.float().tolist(), BOUND[str(dtype).partition(".")[2]])


def causal(i, j):
    return j <= i + LATE


@case
def torch_types_and_masks(torch):
    worst = 0.0
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = torch_inputs(torch, dtype)
        for options, visible in (({}, None), ({"causal": True}, causal),
                                 ({"window": (20, 3), "softcap": 5.0},
                                  lambda i, j: (j >= i + LATE - 20) & (j <= i + LATE + 3))):
            o, lse = ptxpack.attention(q, k, v, return_lse=True, **options)
            want, want_lse = torch_reference(torch, q, k, v, visible, options.get("softcap", 0.0))
            assert o.dtype == dtype and o.device == q.device and o.shape == q.shape
            near(lse.tolist(), want_lse.tolist(), 5e-3)
            worst = max(worst, torch_check(torch, o, want, dtype))
    return "largest error %.1e" % worst


@case
def torch_layouts(torch):
    q, k, v = torch_inputs(torch)
    want = ptxpack.attention(q, k, v, causal=True)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    o = ptxpack.attention(*turned, causal=True, layout="bhsd")
    assert torch.equal(o.transpose(1, 2), want) and o.stride() == turned[0].stride()
    o = ptxpack.attention(*(x.contiguous() for x in turned), causal=True, layout="bhsd")
    assert torch.equal(o.transpose(1, 2), want) and o.is_contiguous()
    packed = torch.cat([q, q, q], 2)  # q, k and v are slices of one tensor
    parts = packed.split(Q[2], 2)
    assert not parts[1].is_contiguous()
    assert torch.equal(ptxpack.attention(*parts), ptxpack.attention(q, q, q))
    one = [x[:1].expand(2, -1, -1, -1) for x in (k, v)]
    other = ptxpack.attention(q, *(x.contiguous() for x in one))  # another kernel may have computed it
    assert (ptxpack.attention(q, *one).float() - other.float()).abs().max().item() <= BOUND["bfloat16"]
    return "transposed, sliced and expanded tensors"


@case
def torch_operator(torch):
    import ptxpack.torch
    q, k, v = torch_inputs(torch)
    want = ptxpack.attention(q, k, v, causal=True)
    assert torch.equal(ptxpack.torch.attention(q, k, v, causal=True), want)
    compiled = torch.compile(lambda *inputs: ptxpack.torch.attention(*inputs, causal=True), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), want)
    return "eager and compiled, the same bits"


DOUBLE = """.version 7.0
.target sm_70
.address_size 64
.visible .entry double(.param .u64 y, .param .u64 x, .param .f32 add)
{
        .reg .b64 %y, %x;  .reg .b32 %i, %block, %size;  .reg .f32 %v, %add;
        ld.param.u64    %y, [y];
        ld.param.u64    %x, [x];
        ld.param.f32    %add, [add];
        mov.u32         %i, %tid.x;
        mov.u32         %block, %ctaid.x;
        mov.u32         %size, %ntid.x;
        mad.lo.u32      %i, %block, %size, %i;
        mad.wide.u32    %y, %i, 4, %y;
        mad.wide.u32    %x, %i, 4, %x;
        ld.global.f32   %v, [%x];
        fma.rn.f32      %v, %v, 2.0, %add;
        st.global.f32   [%y], %v;
        ret;
}
"""


@case
def torch_kernel(torch):
    double, x = ptxpack.kernel("double.ptx", text=DOUBLE), torch.arange(1024.0, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(1000000)
        y = x + 1.0
        double(8, 128, y, y, 3)  # on the current stream, or it would read y too early
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * (x + 1) + 3)
    return "on the current stream"


@case
def torch_streams(torch):
    q, k, v = torch_inputs(torch)
    want = ptxpack.attention(q, k, v)
    stream, outs = torch.cuda.Stream(), []
    with torch.cuda.stream(stream):
        for _ in range(20):  # each waits for its inputs, and their memory is used again at once
            torch.cuda._sleep(100000)
            outs.append(ptxpack.attention(q * 1.0, k * 1.0, v * 1.0))
    stream.synchronize()
    assert all(torch.equal(o, want) for o in outs)
    o = ptxpack.attention(q, k, v, stream=stream)
    p = ptxpack.attention(q, k, v, stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(o, want) and torch.equal(p, want)
    return "a side stream, current and given"


@case
def torch_given_results(torch):
    q, k, v = torch_inputs(torch)
    out, lse = torch.empty_like(q), torch.empty((Q[0], Q[2], Q[1]), device="cuda")
    got = ptxpack.attention(q, k, v, out=out, lse=lse)
    assert got[0] is out and got[1] is lse and torch.equal(out, ptxpack.attention(q, k, v))
    return "out and lse"


@case
def torch_graphs(torch):
    q, k, v = torch_inputs(torch)
    ptxpack.attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = ptxpack.attention(q, k, v, causal=True)
        p = ptxpack.attention(q, k, v)  # this makes a new plan
    for _ in range(3):
        q.copy_(torch.randn_like(q))
        graph.replay()
        assert torch.equal(o, ptxpack.attention(q, k, v, causal=True))
        assert torch.equal(p, ptxpack.attention(q, k, v))
    return "captured, and replayed with new inputs"


@case
def torch_fp8(torch):
    if not hasattr(torch, "float8_e4m3fn") or torch.cuda.get_device_capability() != (9, 0):
        return None
    q, k, v = torch_inputs(torch, torch.float8_e4m3fn)
    factors = {name: torch.full((Q[0], KV[2]), x, device="cuda")
               for name, x in (("q_descale", 0.5), ("k_descale", 2.0), ("v_descale", 0.25))}
    o = ptxpack.attention(q, k, v, causal=True, **factors)
    want, _ = torch_reference(torch, q.float() * 0.5, k.float() * 2, v.float() * 0.25, causal)
    assert o.dtype == torch.bfloat16
    raw = ptxpack.attention(*(x.view(torch.uint8) for x in (q, k, v)), causal=True, dtype="e4m3", **factors)
    assert torch.equal(raw, o)
    return "largest error %.1e" % torch_check(torch, o, want, q.dtype)


@case
def torch_gradients(torch):
    q, k, v = torch_inputs(torch)
    q.requires_grad_()
    try:
        ptxpack.attention(q, k, v)
        raise AssertionError("a gradient is lost silently")
    except ptxpack.ArgumentError as error:
        text = str(error)
    with torch.no_grad():
        ptxpack.attention(q, k, v)
    return text


@case
def torch_threads(torch):
    inputs = [torch_inputs(torch, shape_q=(2, 64 + n, 8, 64)) for n in range(4)]
    wants, wrong = [ptxpack.attention(*x) for x in inputs], []

    def work(n):
        with torch.cuda.stream(torch.cuda.Stream()):
            outs = [ptxpack.attention(*inputs[n]) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
        wrong.extend(o for o in outs if not torch.equal(o, wants[n]))
    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    return "4 threads with a stream each"


@case
def torch_vectors(torch):
    x, y = (torch.randn(1000, 33, device="cuda", dtype=torch.float16) for _ in range(2))
    near(ptxpack.vector_add(x, y, 2.0, -1.0, 0.5).tolist(), (2 * x.float() - y.float() + 0.5).tolist(), 4e-3)
    return "vector_add"


@case
def torch_matmul(torch):
    torch.manual_seed(1)
    x, w = (torch.randn(shape, device="cuda").bfloat16() for shape in ((300, 256), (512, 256)))
    bias, c = torch.randn(512, device="cuda").bfloat16(), torch.randn(300, 512, device="cuda").bfloat16()
    d = ptxpack.matmul(x, w.T, bias=bias, c=c, alpha=0.5, activation="gelu")
    sums = 0.5 * (x.float() @ w.float().T) + c.float() + bias.float()
    want = torch.nn.functional.gelu(sums, approximate="tanh")
    worst = near(d.tolist(), want.tolist(), 2e-2)
    batched = ptxpack.matmul(x.view(3, 100, 256), w.T)
    near(batched.tolist(), (x.view(3, 100, 256).float() @ w.float().T).tolist(), 2e-2)
    return "largest error %.1e" % worst


@case
def torch_devices(torch):
    if torch.cuda.device_count() < 2:
        return None
    q, k, v = torch_inputs(torch)
    there = [x.to("cuda:1") for x in (q, k, v)]
    o = ptxpack.attention(*there)
    assert o.device.index == 1 and torch.equal(o.cpu(), ptxpack.attention(q, k, v).cpu())
    assert torch.cuda.current_device() == 0
    return "tensors of the second GPU, while the first is current"


@case
def torch_overhead(torch):
    q, k, v = torch_inputs(torch, shape_q=(1, 1, 8, 64), shape_kv=(1, 16, 8, 64))
    out = torch.empty_like(q)
    for _ in range(100):
        ptxpack.attention(q, k, v, out=out)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(1000):
        ptxpack.attention(q, k, v, out=out)
    took = (time.perf_counter() - begun) * 1e3
    torch.cuda.synchronize()
    return "%.1f us of the processor a call" % took


# ---- CuPy --------------------------------------------------------------------------------------------------
def cupy_inputs(cupy):
    rng = cupy.random.default_rng(1)
    return [rng.standard_normal(shape, dtype=cupy.float32).astype(cupy.float16) for shape in (Q, KV, KV)]


def array_reference(xp, q, k, v):
    """Computes causal attention with functions that NumPy, CuPy and JAX have in common."""
    q, k, v = (x.astype("float32").transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (xp.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[3])
    i, j = xp.arange(q.shape[2])[:, None], xp.arange(k.shape[2])
    scores = xp.where(causal(i, j), scores, -math.inf)
    weights = xp.exp(scores - scores.max(-1, keepdims=True))
    return (weights @ v / weights.sum(-1, keepdims=True)).transpose(0, 2, 1, 3)


@case
def cupy_arrays(cupy):
    q, k, v = cupy_inputs(cupy)
    o, lse = ptxpack.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(o, cupy.ndarray) and o.dtype == cupy.float16 and lse.dtype == cupy.float32
    turned = ptxpack.attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), causal=True, layout="bhsd")
    assert (turned.transpose(0, 2, 1, 3) == o).all()
    return "largest error %.1e" % near(o.tolist(), array_reference(cupy, q, k, v).tolist(), BOUND["float16"])


@case
def cupy_streams(cupy):
    q, k, v = cupy_inputs(cupy)
    want = ptxpack.attention(q, k, v, causal=True)
    cupy.cuda.Device().synchronize()
    stream, outs = cupy.cuda.Stream(non_blocking=True), []
    with stream:
        for _ in range(20):
            outs.append(ptxpack.attention(q * 1, k * 1, v * 1, causal=True))
    given = ptxpack.attention(q, k, v, causal=True, stream=stream)
    stream.synchronize()
    assert all((o == want).all() for o in outs + [given])
    return "a side stream, current and given"


@case
def cupy_given_results(cupy):
    q, k, v = cupy_inputs(cupy)
    out = cupy.empty_like(q)
    assert ptxpack.attention(q, k, v, out=out) is out and (out == ptxpack.attention(q, k, v)).all()
    return "out"


@case
def cupy_bf16_as_uint16(cupy):
    q, k, v = (x.astype(cupy.float32) for x in cupy_inputs(cupy))
    bits = [(x.view(cupy.uint32) >> 16).astype(cupy.uint16) for x in (q, k, v)]
    values = [(x.astype(cupy.uint32) << 16).view(cupy.float32) for x in bits]
    o = ptxpack.attention(*bits, causal=True, dtype="bf16")
    assert o.dtype == cupy.uint16
    got = (o.astype(cupy.uint32) << 16).view(cupy.float32)
    want = array_reference(cupy, *values)
    return "largest error %.1e" % near(got.tolist(), want.tolist(), BOUND["bfloat16"])


# ---- JAX ---------------------------------------------------------------------------------------------------
def jax_inputs(jax, dtype):
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    return [jax.random.normal(key, shape, dtype="float32").astype(dtype)
            for key, shape in zip(keys, (Q, KV, KV))]


@case
def jax_arrays(jax):
    worst = 0.0
    for dtype in ("float16", "bfloat16"):
        q, k, v = jax_inputs(jax, dtype)
        o, lse = ptxpack.attention(q, k, v, causal=True, return_lse=True)
        assert isinstance(o, jax.Array) and o.dtype == q.dtype and lse.shape == (Q[0], Q[2], Q[1])
        want = array_reference(jax.numpy, q, k, v)
        worst = max(worst, near(o.astype("float32").tolist(), want.tolist(), BOUND[dtype]))
    return "largest error %.1e" % worst


@case
def jax_order(jax):
    """The inputs are still being computed and are dropped at once; the results are read at once."""
    q, k, v = jax_inputs(jax, "bfloat16")
    spin = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: y * 1, x))
    want = ptxpack.attention(q, k, v, causal=True).astype("float32")
    worst = 0.0
    for _ in range(20):
        o = ptxpack.attention(spin(q, 200), spin(k, 200), spin(v, 200), causal=True)
        junk = [jax.numpy.full(KV, float("nan"), "bfloat16") for _ in range(8)]  # it may reuse freed memory
        worst = max(worst, float(abs(o.astype("float32") - want).max()))
        del junk
    assert worst == 0.0, "off by %r" % worst
    return "ordered with JAX's own work"


@case
def jax_refusals(jax):
    q, k, v = jax_inputs(jax, "bfloat16")
    try:
        jax.jit(ptxpack.attention)(q, k, v)
        raise AssertionError("traced arrays are taken")
    except TypeError as error:
        return str(error)


# ---- Numba: only __cuda_array_interface__ -----------------------------------------------------------------
@case
def numba_arrays(numba):
    import numpy
    cuda = importlib.import_module("numba.cuda")
    rng = numpy.random.default_rng(1)
    host = [rng.standard_normal(shape).astype(numpy.float16) for shape in (Q, KV, KV)]
    stream = cuda.stream()
    q, k, v = (cuda.to_device(x, stream=stream) for x in host)
    o = ptxpack.attention(q, k, v, causal=True)
    got = cuda.as_cuda_array(o).copy_to_host()
    given = ptxpack.attention(q, k, v, causal=True, stream=stream)
    assert (cuda.as_cuda_array(given).copy_to_host() == got).all()
    return "largest error %.1e" % near(got.tolist(), array_reference(numpy, *host).tolist(), BOUND["float16"])


# ---- running -----------------------------------------------------------------------------------------------
def find(name):
    """Returns the library, or None and the reason."""
    try:
        library = importlib.import_module(name)
        seen = {"torch": lambda: library.cuda.is_available(), "jax": lambda: library.devices("gpu"),
                "cupy": lambda: library.cuda.runtime.getDeviceCount(),
                "numba": lambda: importlib.import_module("numba.cuda").is_available()}[name]()
        return (library, "") if seen else (None, "sees no GPU")
    except Exception as error:  # each library reports a missing GPU in its own way
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def main():
    ran = failed = 0
    for name in sys.argv[1:] or cases:
        library, reason = find(name)
        if library is None:
            print("SKIP: %s: %s" % (name, reason))
            continue
        for title, function in cases[name]:
            ran += 1
            try:
                found = function(library)
                print("%s  %s %s: %s" % ("SKIP:" if found is None else "ok   ", name, title,
                                         found or "not on this machine"))
            except Exception as error:  # the next case may still pass
                failed += 1
                print("FAIL   %s %s: %s: %s" % (name, title, type(error).__name__, error))
    print("%d cases, %d failures" % (ran, failed))
    return 77 if ran == 0 else min(failed, 1)


sys.exit(main())
