#!/usr/bin/env python3
"""gemm_fp8.py - ptxpack's products of e4m3 beside PyTorch's torch._scaled_mm (cuBLAS), on one GPU.

Needs a machine with PyTorch and a Hopper GPU, and build/libptxpack.so (make lib).

  python3 tools/bench/gemm_fp8.py [--shape 4096,4096x4096x1024,...] [--scales tensor,lines,blocks] [--dtype bf16]
  python3 tools/bench/gemm_fp8.py --weights [--rows 1,8,16,32] [--matrices 6144x4096,...] [--scales ...] [--dtype bf16]

A is row-major, B column-major, D of --dtype; data, shapes and the method are those of gemm.py.  Scales are one for each
matrix; one for each row of A and column of B; or one for 1 x 128 of A and 128 x 128 of B.  cuBLAS sums as exactly as it can;
"fast" is with use_fast_accum, where the tensor cores' 13 bits hold whole sums.  What this PyTorch does not do is left out.

An error is the root of the mean square of D - exact over that of exact, of 64 rows: D's rounding alone is some 1.7e-3 with
bf16 and 2.1e-4 with f16.

--weights: few rows of 16 bits and a B of e4m3, n x k, beside ptxpack's product with a B of 16 bits: GB/s of B, and how much faster.
"""
import argparse
import json
import os
import statistics

import torch

import gemm

E4M3 = 3
KINDS = ("tensor", "lines", "blocks")  # ptxpack_gemm_scales
BLOCK = 128
MATRICES = ("6144x4096", "4096x4096", "28672x4096", "4096x14336",  # Llama 3 8B: q, k and v; o; gate and up; down
            "10240x8192", "8192x8192", "57344x8192", "8192x28672")  # 70B


def divided_up(a, b):
    return -(-a // b)


def scales_of(kind, shape):
    """Of A and B as ptxpack has them, row-major, and the same as PyTorch wants them: of blocks those of A column by column."""
    m, n, k = shape
    of_a, of_b = {"tensor": ((1,), (1,)), "lines": ((m, 1), (n, 1)),
                  "blocks": ((m, divided_up(k, BLOCK)), (divided_up(n, BLOCK), divided_up(k, BLOCK)))}[kind]
    a, b = (torch.rand(lines, device="cuda") + 0.5 for lines in (of_a, of_b))
    return a, b, a.T.contiguous().T if kind == "blocks" else a, b if kind == "tensor" else b.T


def input_sets(shape, kind, options):
    """a, b, d, and scales as scales_of returns them."""
    m, n, k = shape
    sets = []
    for _ in range(max(2, min(16, divided_up(gemm.L2_BYTES, m * k + k * n + 2 * m * n)))):
        sets.append((gemm.matrix(m, k, "r", torch.float8_e4m3fn, options.data),
                     gemm.matrix(k, n, "c", torch.float8_e4m3fn, options.data),
                     torch.empty(m, n, device="cuda", dtype=gemm.DTYPES[options.dtype][1])) + scales_of(kind, shape))
    return sets


def cublas(fast):
    def run(a, b, d, _a, _b, scale_a, scale_b):
        return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=d.dtype, use_fast_accum=fast, out=d)
    return run


def ours(pack, plan, scratch):
    def run(a, b, d, scale_a, scale_b, *_):
        pack.launch(plan, scratch, a, b, None, d, None, scale_a, scale_b)
        return d
    return run


def candidates(pack, shape, kind, sets, options):
    m, n, k = shape
    desc = gemm.Description(size=gemm.ctypes.sizeof(gemm.Description), dtype=gemm.DTYPES[options.dtype][0], m=m, n=n, k=k,
                            order_b=1, dtype_ab=E4M3, scales=KINDS.index(kind))
    plan, used, scratch = pack.plan(desc)
    runs = {"ptxpack": ours(pack, plan, scratch)}
    for name, fast in (("cuBLAS", False), ("cuBLAS fast", True)):
        try:
            cublas(fast)(*sets[0])
            runs[name] = cublas(fast)
        except (RuntimeError, ValueError) as why:
            print(f"# {name}, {kind}: {str(why).splitlines()[0][:150]}")
    return runs, used


def scaled(lines, scales):
    """Lines of A or B in double precision times their scales: one, one for each line, or some along each line."""
    if scales.dim() > 1 and scales.shape[1] > 1:
        scales = scales.repeat_interleave(BLOCK, dim=1)[:, :lines.shape[1]]
    return lines.double() * scales.double()


def error_of(run, kind, inputs):
    """Over 64 rows."""
    a, b, d, scale_a, scale_b = inputs[:5]
    d.fill_(float("nan"))
    out = run(*inputs)
    rows = torch.randint(0, a.shape[0], (64,), device="cuda")
    rows[0], rows[1] = 0, a.shape[0] - 1
    of_columns = scale_b.repeat_interleave(BLOCK, dim=0)[:b.shape[1]] if kind == "blocks" else scale_b
    exact = scaled(a[rows], scale_a if kind == "tensor" else scale_a[rows]) @ scaled(b.T, of_columns).T
    return float(((out[rows].double() - exact).square().mean() / exact.square().mean()).sqrt())


def problem(pack, shape, kind, options):
    sets = input_sets(shape, kind, options)
    runs, used = candidates(pack, shape, kind, sets, options)
    errors = {name: error_of(run, kind, sets[0]) for name, run in runs.items()}
    flops = 2.0 * shape[0] * shape[1] * shape[2]
    launches = int(max(10, min(200, 8e-3 / (flops / 1400e12))))
    launches = divided_up(launches, len(sets)) * len(sets)
    times = gemm.measure(runs, sets, launches, options)
    return {"shape": shape, "scales": kind, "row": used, "error": errors,
            "tflops": {name: flops / seconds * 1e-12 for name, seconds in times.items()}}


# ---- B alone of e4m3 ------------------------------------------------------------------------------------------
def weights_problem(pack, shape, options):
    """Seconds and rows of kernels.def by what B is: "16 bits" or the kind of its scales."""
    m, n, k = shape
    kind = gemm.DTYPES[options.dtype][1]
    sets = [(gemm.matrix(m, k, "r", kind, options.data), gemm.matrix(k, n, "c", kind, options.data),
             gemm.matrix(k, n, "c", torch.float8_e4m3fn, options.data), torch.empty(m, n, device="cuda", dtype=kind),
             {name: scales_of(name, shape)[1] for name in options.scales})
            for _ in range(max(2, min(16, divided_up(gemm.L2_BYTES, k * n))))]
    runs, used, errors = {}, {}, {}
    for name in ["16 bits"] + options.scales:
        of_e4m3 = name != "16 bits"
        desc = gemm.Description(size=gemm.ctypes.sizeof(gemm.Description), dtype=gemm.DTYPES[options.dtype][0], m=m, n=n, k=k,
                                order_b=1, scales=KINDS.index(name) if of_e4m3 else 0, dtype_b=E4M3 if of_e4m3 else 0)
        plan, used[name], scratch = pack.plan(desc)

        def run(a, wide, narrow, d, scales, plan=plan, scratch=scratch, name=name):
            pack.launch(plan, scratch, a, narrow if name in scales else wide, None, d, None, None, scales.get(name))
            return d
        runs[name] = run
        a, wide, narrow, d, scales = sets[0]
        columns = scales[name].repeat_interleave(BLOCK, dim=0)[:n] if name == "blocks" else scales.get(name)
        exact = a.double() @ (scaled(narrow.T, columns).T if of_e4m3 else wide.double())
        d.fill_(float("nan"))
        errors[name] = float(((run(*sets[0]).double() - exact).square().mean() / exact.square().mean()).sqrt())
    launches = divided_up(100, len(sets)) * len(sets)
    return {"shape": shape, "rows": used, "error": errors, "seconds": gemm.measure(runs, sets, launches, options)}


def weights_table(pack, options):
    print("| n x k | m | 16 bits, GB/s | " + " | ".join(f"{name}, GB/s, error, times 16 bits" for name in options.scales)
          + " | row |\n|" + "---|" * (4 + len(options.scales)))
    results = []
    for text in options.matrices:
        n, k = (int(word) for word in text.split("x"))
        for m in map(int, options.rows):
            r = weights_problem(pack, (m, n, k), options)
            seconds = r["seconds"]
            cells = [f"{n * k / seconds[name] * 1e-9:.0f}, {r['error'][name]:.1e}, {seconds['16 bits'] / seconds[name]:.2f}"
                     for name in options.scales]
            print(f"| {text} | {m} | {2 * n * k / seconds['16 bits'] * 1e-9:.0f} | {' | '.join(cells)} | "
                  f"{r['rows'][options.scales[0]].removeprefix('gemm_rows_e4m3_sm90_')} |", flush=True)
            results.append(r)
    return results


def table(pack, options):
    names = ("ptxpack", "cuBLAS", "cuBLAS fast")
    print("| m | n | k | scales | row | " + " | ".join(f"{name}, error" for name in names) + " | ptxpack/cuBLAS |\n|"
          + "---|" * 9)
    results = []
    for text in options.shape:
        for kind in options.scales:
            r = problem(pack, gemm.shape_of(text), kind, options)
            speed, error = r["tflops"], r["error"]
            cells = [f"{speed[name]:.0f}, {error[name]:.2e}" if name in speed else "-" for name in names]
            ratio = f"{speed['ptxpack'] / speed['cuBLAS']:.3f}" if "cuBLAS" in speed else "-"
            m, n, k = r["shape"]
            print(f"| {m} | {n} | {k} | {kind} | {r['row'].removeprefix('gemm_wgmma_sm90_')} | {' | '.join(cells)} | {ratio} |",
                  flush=True)
            results.append(r)
    ratios = [r["tflops"]["ptxpack"] / r["tflops"]["cuBLAS"] for r in results if "cuBLAS" in r["tflops"]]
    if ratios:
        print(f"ptxpack / cuBLAS: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return results


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=gemm.words, default=list(gemm.SHAPES))
    parser.add_argument("--scales", type=gemm.words, default=list(KINDS))
    parser.add_argument("--weights", action="store_true", help="few rows of 16 bits, and B alone of e4m3")
    parser.add_argument("--rows", type=gemm.words, default=["1", "8", "16", "32"])
    parser.add_argument("--matrices", type=gemm.words, default=list(MATRICES))
    parser.add_argument("--dtype", choices=gemm.DTYPES, default="bf16")
    parser.add_argument("--data", choices=("randn", "zero"), default="randn", help="zeros draw less power")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each timing (default 0.05)")
    parser.add_argument("--library", default=os.path.join(here, "..", "..", "build", "libptxpack.so"))
    parser.add_argument("--json", help="write the figures to this file, too")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    pack = gemm.Ptxpack(options.library, None)
    print(f"{gemm.datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, torch {torch.__version__}, e4m3 to "
          f"{options.dtype}, {options.data}; TFLOP/s, median of {options.rounds}, and error")
    results = weights_table(pack, options) if options.weights else table(pack, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
