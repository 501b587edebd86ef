#!/usr/bin/env python3
"""hooks.py - the cookbook of tools/examples/hooks beside PyTorch's FlexAttention (torch.compile), which is given the same functions.

Prompts of --seqlen positions, 16384 in all, 2048 / head_dim heads, bf16, inputs that rotate.  Causal masks are told to ptxpack in its
descriptor; FlexAttention has them in its mask, with a BlockMask of 128 x 128 that is made before, as ptxpack's lists of blocks for
hooks that mask.  The last column is the time of what does the same without a hook: the built-in softcap, ALiBi or bias, and packed
prompts for documents.  Every result is compared with FlexAttention's.  Needs ptxpack built (make), PyTorch and a GPU.

    python3 tools/bench/scores/hooks.py --head-dim 64,128 --seqlen 4096,16384
"""
import argparse
import datetime
import math
import os
import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import attention as prefill  # noqa: E402

DOCUMENT = 1024  # positions


def causal(b, h, q, k):
    return q >= k


class Entry:
    """A hook of the cookbook: what attention() is given, and FlexAttention's functions for the same."""

    def __init__(self, name, heads, seqlen):
        self.name, self.score, self.mask, self.aux, self.causal = name, None, None, [], True
        self.normalized, self.mask_of_batch = True, False
        getattr(self, name)(heads, seqlen)
        with open(os.path.join(HERE, "..", "..", "examples", "hooks", name + ".ptx")) as file:
            self.given = {"score_mod" if self.score else "mask_mod": file.read(), "aux": self.aux, "causal": self.causal,
                          "normalized": self.normalized}
        self.builtin = {"alibi": lambda: {"alibi_slopes": self.aux[0]}, "softcap": lambda: {"softcap": 30.0},
                        "bias": lambda: {"bias": self.aux[0]}}.get(name)

    def alibi(self, heads, seqlen):
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)], device="cuda")
        self.aux, self.score = [slopes], lambda s, b, h, q, k: s - slopes[h] * (q - k)

    def relative_bias(self, heads, seqlen):
        bias = torch.randn(heads, 257, device="cuda")
        self.aux, self.score = [bias], lambda s, b, h, q, k: s + bias[h, (q - k).clamp(-128, 128) + 128]

    def bias(self, heads, seqlen):
        bias = torch.randn(heads, seqlen, seqlen, device="cuda")
        sizes = torch.tensor([seqlen, seqlen, 0], device="cuda", dtype=torch.int32)
        self.aux, self.score = [bias, sizes], lambda s, b, h, q, k: s + bias[h, q, k]

    def softcap(self, heads, seqlen):
        self.score = lambda s, b, h, q, k: 30 * torch.tanh(s / 30)

    def documents(self, heads, seqlen):
        document = (torch.arange(seqlen, device="cuda") // DOCUMENT).int()
        self.aux, self.mask = [document * DOCUMENT, (document + 1) * DOCUMENT], lambda b, h, q, k: (q >= k) & (document[q] == document[k])

    def prefix_lm(self, heads, seqlen):
        prefix = torch.full((prefill.TOKENS // seqlen,), seqlen // 4, device="cuda", dtype=torch.int32)
        self.mask_of_batch, self.aux, self.causal, self.mask = True, [prefix], False, lambda b, h, q, k: (q >= k) | (k < prefix[b])

    def global_tokens(self, heads, seqlen):
        self.causal, self.mask = False, lambda b, h, q, k: ((q - k).abs() <= 32) | (k < 4)

    def dilated(self, heads, seqlen):
        self.mask = lambda b, h, q, k: (q - k >= 0) & (q - k < 64) & ((q - k) & 3 == 0)

    def sigmoid(self, heads, seqlen):
        shift = torch.tensor([-math.log(seqlen)], device="cuda")
        self.aux, self.score, self.normalized = [shift], lambda s, b, h, q, k: torch.nn.functional.logsigmoid(s + shift[0]), False

    def tree(self, heads, seqlen):
        batch, parents = prefill.TOKENS // seqlen, (-1, 0, 0, 1, 1, 2, 2, 5)
        sees = [1 << i for i in range(8)]
        for i in range(1, 8):
            sees[i] |= sees[parents[i]]
        first = torch.full((batch,), seqlen - 8, device="cuda", dtype=torch.int32)
        bits = torch.tensor(batch * [sees], device="cuda", dtype=torch.uint8)
        self.aux, self.mask_of_batch = [first, bits], True
        self.mask = lambda b, h, q, k: (q >= k) & ((k < first[b]) | (bits[b, (q - first[b]).clamp(0)] >> (k - first[b]).clamp(0) & 1 == 1))


NAMES = ("alibi", "relative_bias", "bias", "softcap", "documents", "prefix_lm", "global_tokens", "dilated", "sigmoid", "tree")


def flex_of(entry, batch, heads, seqlen):
    mask = entry.mask or causal
    blocks = create_block_mask(mask, batch if entry.mask_of_batch else 1, 1, seqlen, seqlen, device="cuda")

    def unnormalized(*inputs, **given):
        out, lse = flex_attention(*inputs, return_lse=True, **given)
        return out * lse.exp()[..., None].to(out.dtype)

    compiled = torch.compile(flex_attention if entry.normalized else unnormalized, dynamic=False)

    def runner(**given):
        def run(q, k, v, out):
            return compiled(*(x.transpose(1, 2) for x in (q, k, v)), score_mod=entry.score, block_mask=blocks, **given).transpose(1, 2)

        return run

    return runner(), runner(kernel_options={"num_stages": 2})


def first_that_runs(runs, inputs):
    """Its own choice of stages may need more shared memory than there is; then it is told fewer."""
    for run in runs:
        try:
            run(*inputs)
            return run
        except Exception as error:  # of the compiler
            failed = error
    raise failed


def row(pack, entry, seqlen, dim, options):
    batch, heads = prefill.TOKENS // seqlen, prefill.HIDDEN // dim
    sets = []
    for _ in range(2):
        q, k, v = (torch.randn(batch, seqlen, heads, dim, device="cuda").bfloat16() for _ in range(3))
        sets.append((q, k, v, torch.empty_like(q)))
    lists = None
    if entry.mask:
        lists = pack.attention_blocks(entry.given["mask_mod"], batch if entry.mask_of_batch else None, None, seqlen, seqlen,
                                      causal=entry.causal, aux=entry.aux, like=sets[0][0])
    runs = {"ptxpack": lambda q, k, v, out: pack.attention(q, k, v, out=out, block_mask=lists, **entry.given),
            "without": lambda q, k, v, out: pack.attention(q, k, v, out=out, causal=entry.causal),
            "flex": first_that_runs(flex_of(entry, batch, heads, seqlen), sets[0])}
    if entry.builtin:
        built_in = {**entry.builtin(), "causal": entry.causal}
        runs["built in"] = lambda q, k, v, out: pack.attention(q, k, v, out=out, **built_in)
    if entry.name == "documents":
        starts = torch.arange(0, prefill.TOKENS + 1, DOCUMENT, device="cuda", dtype=torch.int32)
        runs["built in"] = lambda q, k, v, out: pack.attention(*(x.flatten(0, 1) for x in (q, k, v)), causal=True, cu_seqlens_q=starts,
                                                               cu_seqlens_k=starts, max_seqlen_q=DOCUMENT, max_seqlen_k=DOCUMENT,
                                                               out=out.flatten(0, 1))
    ours, peer = (runs[name](*sets[0]).float() for name in ("ptxpack", "flex"))
    error = (ours - peer).abs().max().item()
    if not error < 0.03 * max(1.0, peer.abs().max().item()):
        sys.exit(f"{entry.name}, d {dim}, s {seqlen}: differs from FlexAttention by {error:.3g}")
    del ours, peer
    times = prefill.measure(runs, sets, options.rounds, options.rest)
    print(f"| {entry.name} | {dim} | {seqlen} | {times['ptxpack'] * 1e6:.0f} | {times['without'] * 1e6:.0f} | {times['flex'] * 1e6:.0f} | "
          f"{times['ptxpack'] / times['without']:.3f} | {times['flex'] / times['ptxpack']:.2f} | "
          + (f"{times['built in'] * 1e6:.0f} ({times['ptxpack'] / times['built in']:.3f}) |" if "built in" in times else " |"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=prefill.numbers, default=[64, 128])
    parser.add_argument("--seqlen", type=prefill.numbers, default=[4096, 16384])
    parser.add_argument("--hooks", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    prefill.add_options(parser)
    options = parser.parse_args()
    torch._dynamo.config.recompile_limit = 1000
    ptxpack = prefill.open_module(options)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, bf16, median of {options.rounds}\n")
    print("| hook | d | s | ptxpack us | without | Flex | ptxpack / without | Flex / ptxpack | built in us (ptxpack / it) |\n" + 9 * "|---" + "|")
    for dim in options.head_dim:
        for seqlen in options.seqlen:
            for name in options.hooks:
                if name == "bias" and prefill.HIDDEN // dim * seqlen**2 >= 2**31:
                    continue  # FlexAttention counts the elements in 32 bits, and reads elsewhere
                row(ptxpack, Entry(name, prefill.HIDDEN // dim, seqlen), seqlen, dim, options)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
