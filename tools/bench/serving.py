#!/usr/bin/env python3
"""serving.py - ptxpack's attention as inference engines call it, on one GPU: lengths, pages, packed rows, appends, merges.

Needs a machine with PyTorch and a CUDA device, and build/libptxpack.so (make lib).

  python3 tools/bench/serving.py [--part decode,mixed,queries,types,packed,chunks,append,merge] [--rows 0,4,8]

decode   one query row: contiguous keys, with lengths, and in pages of 128, 16 and 1 (shuffled over the pool)
mixed    one sequence of 64k keys and 31 of 1k
queries  1, 4, 8 and 16 query rows of each sequence
types    head dims, f16 and groups of heads, at a batch of 32
packed   prompts of unequal lengths behind each other, keys also in pages, beside FlashAttention-2 (PyTorch's) and own
         rows of one length
chunks   few query rows, many keys; few heads; cross attention: beside PyTorch's FlashAttention-2, cuDNN and, with --flex, FlexAttention
append   new rows into a paged cache with rotary;  merge: two partial results

Every result is checked before it is timed, on some sequences and heads, by FlashAttention's bound.  Otherwise the method is
that of decode.py.  Through the Python module, whose own time a captured graph does not have.
"""
import argparse
import datetime
import math
import random
import sys

import torch

import attention as prefill
import decode

PAGES = (128, 16, 1)
# Prompts of the packed part, causal, 32/8 heads; TFLOP/s of FlashAttention-3 with a schedule made before, on an H200 on
# 2026-11-23 (its lengths were others of the same ranges, and as many tokens within 10).
MIXES = (("8 of 2048", lambda: [2048] * 8, 567), ("ten of 37 to 4100", lambda: drawn(1281, 10, 37, 4100), 640),
         ("64 of 50 to 550", lambda: drawn(117, 64, 50, 550), 233), ("one of 8192, 31 of 200", lambda: [8192] + [200] * 31, 667))
# batch, heads, key heads, query rows, keys, head dim, causal
CHUNKS = ((1, 32, 8, 64, 16384, 128, True), (1, 32, 8, 256, 32768, 128, True), (1, 32, 8, 512, 8192, 128, True),
          (1, 8, 1, 8192, 8192, 128, True), (1, 28, 4, 700, 700, 128, True), (8, 20, 20, 1, 1500, 64, False))
# head dim, type, heads, key heads; keys so many that all read as much
TYPES = ((128, "bf16", 32, 8), (64, "bf16", 32, 8), (256, "bf16", 32, 8), (128, "f16", 32, 8), (128, "bf16", 8, 8),
         (128, "bf16", 64, 8), (128, "bf16", 128, 8))


def drawn(seed, count, least, most):
    return random.Random(seed).choices(range(least, most + 1), k=count)


def integers(values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def starts_of(lengths):
    return integers([sum(lengths[:i]) for i in range(len(lengths) + 1)])


def check(out, q, k, v, causal, name):
    """[rows, heads, dim] of one sequence: the first and the last head."""
    group = q.shape[1] // k.shape[1]
    for h in (0, q.shape[1] - 1):
        prefill.check_head(out[:, h], (q[:, h], k[:, h // group], v[:, h // group]), causal, f"{name}: head {h}")


class Cache:
    """Keys and values of sequences, contiguous and in pages."""

    def __init__(self, lengths, heads, dim, kind):
        self.lengths = lengths
        self.k, self.v = (torch.randn(sum(lengths), heads, dim, device="cuda", dtype=kind) for _ in range(2))
        self.starts, self.used = starts_of(lengths), integers(lengths)

    def sequence(self, i):
        first = sum(self.lengths[:i])
        return self.k[first:first + self.lengths[i]], self.v[first:first + self.lengths[i]]

    def paged(self, page):
        """A pool in which the pages are shuffled, and its table."""
        counts = [-(-length // page) for length in self.lengths]
        ids = torch.randperm(sum(counts), device="cuda", dtype=torch.int64)
        table = torch.zeros(len(counts), max(counts), device="cuda", dtype=torch.int32)
        pools = [torch.full((len(ids) * page, *self.k.shape[1:]), math.nan, device="cuda", dtype=self.k.dtype) for _ in "kv"]
        taken = 0
        for i, count in enumerate(counts):
            mine = ids[taken:taken + count]
            table[i, :count] = mine.int()
            rows = (mine[:, None] * page + torch.arange(page, device="cuda")[None]).flatten()[:self.lengths[i]]
            for pool, flat in zip(pools, self.sequence(i)):
                pool[rows] = flat
            taken += count
        return [pool.view(-1, page, *pool.shape[1:]) for pool in pools] + [table]


def rotated(size, make):
    return [make() for _ in range(max(2, min(prefill.LAUNCHES, int(decode.ROTATED // size) + 1)))]


def micro(seconds, size=None):
    return f"{seconds * 1e6:.1f}" + ("" if size is None else f" ({size / seconds * 1e-9:.0f})")


def timed(pack, kinds, lengths, heads, key_heads, dim, kind, queries, options):
    """Seconds of one step of decoding over caches of `kinds`: "contiguous" (equal lengths), "lengths", or pages of so many rows."""
    size = 4 * sum(lengths) * key_heads * dim
    batch, equal = len(lengths), len(set(lengths)) == 1

    def make():
        cache = Cache(lengths, key_heads, dim, kind)
        q = torch.randn(batch, queries, heads, dim, device="cuda").to(kind)
        pools = {page: cache.paged(page) for page in kinds if isinstance(page, int)}
        return cache, q, torch.empty_like(q), pools

    sets = rotated(size, make)
    causal = queries > 1
    early = {"overlap": options.overlap, "constant_kv": options.overlap}

    def contiguous(cache, q, out, pools):
        k, v = (x.view(batch, -1, key_heads, dim) for x in (cache.k, cache.v))
        return pack.attention(q, k, v, causal=causal, out=out, **early)

    def with_lengths(cache, q, out, pools):
        if equal:
            k, v = (x.view(batch, -1, key_heads, dim) for x in (cache.k, cache.v))
            return pack.attention(q, k, v, causal=causal, seqused_k=cache.used, out=out, **early)
        return pack.attention(q, cache.k, cache.v, causal=causal, cu_seqlens_k=cache.starts, max_seqlen_k=max(lengths), out=out, **early)

    def in_pages(page):
        def run(cache, q, out, pools):
            k, v, table = pools[page]
            return pack.attention(q, k, v, causal=causal, seqused_k=cache.used, page_table=table, out=out, **early)
        return run

    runs = {name: in_pages(name) if isinstance(name, int) else {"contiguous": contiguous, "lengths": with_lengths}[name]
            for name in kinds}
    for name, run in runs.items():
        cache, q = sets[0][:2]
        out = run(*sets[0])
        for i in (0, batch - 1):
            check(out[i], q[i], *cache.sequence(i), causal, f"{name}, {batch} x {lengths[i]}")
    return size, prefill.measure(runs, sets, options.rounds, options.rest)


def decode_part(pack, options):
    print("| batch, heads, key heads, keys | contiguous | lengths | page 128 | page 16 | page 1 | contiguous / lengths, 128, 16, 1 |\n|"
          + "---|" * 7)
    kinds = ("contiguous", "lengths", *PAGES)
    for i in options.rows:
        batch, heads, key_heads, keys = decode.SHAPES[i]
        size, times = timed(pack, kinds, [keys] * batch, heads, key_heads, 128, torch.bfloat16, 1, options)
        ratios = ", ".join(f"{times['contiguous'] / times[kind]:.2f}" for kind in kinds[1:])
        print(f"| {batch}, {heads}, {key_heads}, {keys} | {' | '.join(micro(times[kind], size) for kind in kinds)} | {ratios} |",
              flush=True)


def mixed_part(pack, options):
    print("| lengths | packed | page 128 | page 16 |\n|" + "---|" * 4)
    for name, lengths in (("65536, 31 x 1024", [65536] + [1024] * 31), ("32 x 3040", [3040] * 32)):
        size, times = timed(pack, ("lengths", 128, 16), lengths, 32, 8, 128, torch.bfloat16, 1, options)
        print(f"| {name} | {' | '.join(micro(seconds, size) for seconds in times.values())} |", flush=True)


def queries_part(pack, options):
    print("| batch, keys, heads; cache | 1 row | 4 | 8 | 16 | over one row |\n|" + "---|" * 6)
    for batch, keys, heads, kind in ((32, 2048, 32, "contiguous"), (32, 2048, 32, 16), (8, 8192, 64, "contiguous"), (8, 8192, 64, 16)):
        found = [timed(pack, (kind,), [keys] * batch, heads, 8, 128, torch.bfloat16, rows, options)[1][kind] for rows in (1, 4, 8, 16)]
        over = ", ".join(f"{seconds / found[0]:.2f}" for seconds in found[1:])
        print(f"| {batch}, {keys}, {heads}/8; {kind} | {' | '.join(map(micro, found))} | {over} |", flush=True)


def types_part(pack, options):
    print("| d, type, heads | contiguous | page 16 | of the first row's GB/s |\n|" + "---|" * 4)
    first = None
    for dim, dtype, heads, key_heads in TYPES:
        size, times = timed(pack, ("contiguous", 16), [4096 * 128 // dim] * 32, heads, key_heads, dim, prefill.DTYPES[dtype][1], 1,
                            options)
        first = first or times
        over = ", ".join(f"{first[kind] / times[kind]:.2f}" for kind in times)
        print(f"| {dim}, {dtype}, {heads}/{key_heads} | {' | '.join(micro(t, size) for t in times.values())} | {over} |", flush=True)


def packed_part(pack, options):
    print("| prompts | tokens | packed, TFLOP/s | page 128 | page 16 | FA2 | FA3 | packed / FA3 | dense | packed / dense | Flex |\n|" +
          "---|" * 11)
    flash = torch.ops.aten._flash_attention_forward
    for name, lengths_of, fa3 in MIXES:
        lengths, heads, key_heads, dim = lengths_of(), 32, 8, 128
        total, most = sum(lengths), max(lengths)
        starts = starts_of(lengths)

        def make():
            cache = Cache(lengths, key_heads, dim, torch.bfloat16)
            q = torch.randn(total, heads, dim, device="cuda", dtype=torch.bfloat16)
            return cache, q, torch.empty_like(q), {page: cache.paged(page) for page in (128, 16)}

        def packed(cache, q, out, pools):
            return pack.attention(q, cache.k, cache.v, causal=True, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=most,
                                  max_seqlen_k=most, out=out)

        def in_pages(page):
            def run(cache, q, out, pools):
                k, v, table = pools[page]
                return pack.attention(q, k, v, causal=True, cu_seqlens_q=starts, max_seqlen_q=most, seqused_k=cache.used,
                                      page_table=table, out=out)
            return run

        def dense(cache, q, out, pools):
            shaped = (x.view(len(lengths), most, -1, dim) for x in (q, cache.k, cache.v))
            return pack.attention(*shaped, causal=True, out=out.view(len(lengths), most, heads, dim)).view(total, heads, dim)

        runs = {"packed": packed, 128: in_pages(128), 16: in_pages(16),
                "FA2": lambda cache, q, out, pools: flash(q, cache.k, cache.v, starts, starts, most, most, 0.0, True, False)[0]}
        if options.flex:
            flex = flexible(torch.repeat_interleave(starts[1:] - starts[:-1]), total, total)
            runs["Flex"] = lambda cache, q, out, pools: flex(q[None], cache.k[None], cache.v[None])[0]
        if len(set(lengths)) == 1:
            runs["dense"] = dense
        sets = [make(), make()]
        for run_name, run in runs.items():
            cache, q = sets[0][:2]
            out = run(*sets[0])
            for i, first in ((0, 0), (len(lengths) - 1, total - lengths[-1])):
                check(out[first:first + lengths[i]], q[first:first + lengths[i]], *cache.sequence(i), True, f"{run_name}, {name}")
        times = prefill.measure(runs, sets, options.rounds, options.rest)
        work = sum(2 * heads * length * length * dim for length in lengths) * 1e-12
        speed = {run_name: work / seconds for run_name, seconds in times.items()}
        cells = [f"{speed[kind]:.0f}" for kind in ("packed", 128, 16, "FA2")] + [str(fa3), f"{speed['packed'] / fa3:.3f}"]
        cells += [f"{speed['dense']:.0f}", f"{speed['packed'] / speed['dense']:.3f}"] if "dense" in speed else ["", ""]
        cells += [f"{speed['Flex']:.0f}"] if "Flex" in speed else [""]
        print(f"| {name} | {total} | {' | '.join(cells)} |", flush=True)


def flexible(documents, queries, keys):
    """Triton's FlexAttention with a causal mask, for queries that are the last of the keys; documents: of each row, which attend to
    themselves only."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def mask(b, h, i, j):
        seen = i + (keys - queries) >= j
        return seen if documents is None else seen & (documents[i] == documents[j])

    blocks = create_block_mask(mask, None, None, queries, keys, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return compiled(q, k, v, block_mask=blocks, enable_gqa=q.shape[1] != k.shape[1]).transpose(1, 2)
    return run


def bottom_right(backend, causal):
    """PyTorch's causal mask of few rows and many keys needs its own class of masks; a square one has not."""
    from torch.nn.attention import sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    def run(q, k, v, out):
        mask = causal_lower_right(q.shape[1], k.shape[1]) if causal and q.shape[1] != k.shape[1] else None
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                *(x.transpose(1, 2) for x in (q, k, v)), attn_mask=mask, is_causal=causal and mask is None,
                enable_gqa=q.shape[2] != k.shape[2]).transpose(1, 2)
    return run


def chunks_part(pack, options):
    print("| batch, heads, key heads, rows, keys, d | ptxpack | with lengths | cuDNN | FA2 | Flex | best peer / ptxpack |\n|" +
          "---|" * 7)
    for batch, heads, key_heads, rows, keys, dim, causal in CHUNKS:
        used = integers([keys] * batch)

        def make():
            q = torch.randn(batch, rows, heads, dim, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(batch, keys, key_heads, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            return q, k, v, torch.empty_like(q)

        sets = rotated(4 * batch * keys * key_heads * dim, make)
        runs = {"ptxpack": lambda q, k, v, out: pack.attention(q, k, v, causal=causal, out=out),
                "with lengths": lambda q, k, v, out: pack.attention(q, k, v, causal=causal, seqused_k=used, out=out),
                "cuDNN": bottom_right(torch.nn.attention.SDPBackend.CUDNN_ATTENTION, causal),
                "FA2": bottom_right(torch.nn.attention.SDPBackend.FLASH_ATTENTION, causal)}
        if options.flex and causal:
            flex = flexible(None, rows, keys)
            runs["Flex"] = lambda q, k, v, out: flex(q, k, v)
        for name, run in list(runs.items()):
            try:
                out = run(*sets[0])
            except RuntimeError as why:  # a peer that does not take this problem
                print(f"{name}: {str(why).splitlines()[0]}", file=sys.stderr)
                del runs[name]
                continue
            check(out[-1], *(x[-1] for x in sets[0][:3]), causal, f"{name}, {rows} of {keys}")
        times = prefill.measure(runs, sets, options.rounds, options.rest)
        cells = [micro(times[name]) if name in times else "" for name in ("ptxpack", "with lengths", "cuDNN", "FA2", "Flex")]
        best = min((times[name] for name in ("cuDNN", "FA2", "Flex") if name in times), default=math.nan)
        print(f"| {batch}, {heads}, {key_heads}, {rows}, {keys}, {dim} | {' | '.join(cells)} | {best / times['ptxpack']:.2f} |",
              flush=True)


def append_part(pack, options):
    print("| sequences, new rows, key heads | us (GB/s of k and v, read and written) |\n|" + "---|" * 2)
    for batch, rows in ((32, 1), (128, 1), (1, 8192), (8, 2048)):
        heads, dim, page = 8, 128, 16
        pages = -(-(4096 + rows) // page)
        kind, pool = torch.bfloat16, (batch * pages, page, heads, dim)
        cos, sin = (torch.rand(8192 + rows, dim // 2, device="cuda", dtype=kind) for _ in range(2))
        table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
        used = integers([4096 + rows] * batch)

        def make():
            return [torch.randn(batch, rows, heads, dim, device="cuda", dtype=kind) for _ in range(2)] + [
                torch.zeros(pool, device="cuda", dtype=kind) for _ in range(2)]

        def run(k_new, v_new, k, v):
            pack.attention_append(k_new, v_new, k, v, used, page_table=table, cos=cos, sin=sin)

        size = 8 * batch * rows * heads * dim
        times = prefill.measure({"append": run}, [make(), make()], options.rounds, options.rest)
        print(f"| {batch}, {rows}, {heads} | {micro(times['append'], size)} |", flush=True)


def merge_part(pack, options):
    print("| rows, heads | us (GB/s) |\n|" + "---|" * 2)
    for rows in (32, 1024, 16384):
        shape = rows, 32, 128

        def make():
            return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)] + [
                torch.randn(32, rows, device="cuda") for _ in range(2)]

        def run(a, b, out, lse_a, lse_b):
            pack.attention_merge(a, lse_a, b, lse_b, out=out)

        times = prefill.measure({"merge": run}, [make(), make()], options.rounds, options.rest)
        print(f"| {rows}, 32 | {micro(times['merge'], 3 * 2 * math.prod(shape) + 8 * rows * 32)} |", flush=True)


PARTS = {"decode": decode_part, "mixed": mixed_part, "queries": queries_part, "types": types_part, "packed": packed_part,
         "chunks": chunks_part, "append": append_part, "merge": merge_part}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rows", type=prefill.numbers, default=list(range(len(decode.SHAPES))), help="of the decode part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--overlap", action="store_true", help="decoding with launches that begin early, as decode.py's \"constant\"")
    parser.add_argument("--flex", action="store_true", help="also Triton's FlexAttention, which compiles for a minute or two")
    prefill.add_options(parser)
    options = parser.parse_args()
    for part in options.part:
        if part not in PARTS:
            parser.error(f"--part {part}: not one of {', '.join(PARTS)}")
    ptxpack = prefill.open_module(options)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, torch {torch.__version__}, cuDNN "
          f"{torch.backends.cudnn.version()}, bf16, head_dim 128; us (GB/s of K and V), median of {options.rounds}")
    for part in options.part:
        print(f"\n{part}\n")
        PARTS[part](ptxpack, options)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
