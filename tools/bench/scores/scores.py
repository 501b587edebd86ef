#!/usr/bin/env python3
"""scores.py - what sinks, ALiBi and a softcap cost, the last two also as hooks: the time of attention with each over that without.

Chunked attention is compared with the same rows as sequences of one chunk each, a quarter of --seqlen, which are as much work.

Prompts: causal, 16384 tokens in sequences of --seqlen, 2048 / head_dim query heads and as many key heads, O and LSE as
attention.py has them.  Decoding: one query row of the shapes --rows of decode.py.  Every result is compared with PyTorch's own
sums in f32, for the first and the last head.  Needs ptxpack built (make), PyTorch and a GPU; the times are those of launches in
CUDA graphs, in shuffled order, with inputs that rotate.

    python3 tools/bench/scores/scores.py --head-dim 64,128,256 --seqlen 4096,16384
"""
import argparse
import datetime
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import attention as prefill  # noqa: E402
import decode  # noqa: E402

WAYS = ("plain", "sinks", "alibi", "softcap", "alibi as a hook", "softcap as a hook")


def slopes_of(heads):
    return torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)], device="cuda")


CHUNKED = ("chunks", "a sequence for each chunk")
CHUNKS = 4


def options_of(way, heads):
    sinks = torch.linspace(-2, 3, heads, device="cuda")
    return {"plain": {}, "sinks": {"sinks": sinks}, "alibi": {"alibi_slopes": slopes_of(heads)}, "softcap": {"softcap": 30.0}}[way]


def given_of(way, heads):
    """The arguments of attention(): of a hook its text, which does the same."""
    name, _, hook = way.partition(" as a ")
    if not hook:
        return options_of(way, heads)
    with open(os.path.join(HERE, "..", "..", "examples", "hooks", name + ".ptx")) as file:
        return {"score_mod": file.read(), "aux": [slopes_of(heads)] if name == "alibi" else []}


def reference(q, k, v, causal, head, options):
    """One head in f32: rows of q against all of k and v."""
    s = q.float() @ k.float().T * q.shape[1] ** -0.5
    if "softcap" in options:
        s = options["softcap"] * torch.tanh(s / options["softcap"])
    place = torch.arange(q.shape[0], device="cuda")[:, None] + k.shape[0] - q.shape[0]
    distance = place - torch.arange(k.shape[0], device="cuda")[None]
    if "alibi_slopes" in options:
        s = s - options["alibi_slopes"][head] * distance.abs()
    if causal:
        s = s.masked_fill(distance < 0, float("-inf"))
    if "attention_chunk" in options:
        s = s.masked_fill(distance > place % options["attention_chunk"], float("-inf"))
    if "sinks" in options:
        s = torch.cat((s, options["sinks"][head].expand(q.shape[0], 1)), 1)
        return (torch.softmax(s, 1)[:, :-1] @ v.float())
    return torch.softmax(s, 1) @ v.float()


def check(out, q, k, v, causal, way, options):
    group, rows = q.shape[2] // k.shape[2], min(q.shape[1], 64)
    for head in (0, q.shape[2] - 1):
        last = (x[-1, -rows:, head] for x in (q, out))
        want = reference(next(last), k[-1, :, head // group], v[-1, :, head // group], causal, head, options)
        error = (next(last).float() - want).abs().max().item()
        if not error < 0.02 * max(1.0, want.abs().max().item()):
            sys.exit(f"{way}, head {head}: error {error:.3g}")


def timed(pack, make, size, causal, options):
    sets = [make() for _ in range(max(2, min(prefill.LAUNCHES, int(decode.ROTATED // size) + 1)))]
    q, k, v, out = sets[0]
    runs = {}
    for way in WAYS:
        given = given_of(way, q.shape[2])
        runs[way] = lambda q, k, v, out, given=given: pack.attention(q, k, v, causal=causal, out=out, **given)
        check(runs[way](q, k, v, out), q, k, v, causal, way, options_of(way.split(" as")[0], q.shape[2]))
    if causal:
        add_chunks(pack, runs, sets, causal)
    return prefill.measure(runs, sets, options.rounds, options.rest)


def add_chunks(pack, runs, sets, causal):
    """Into runs, which then have CHUNKED, too."""
    q, k, v, out = sets[0]
    size = q.shape[1] // CHUNKS

    def chunks(q, k, v, out):
        return pack.attention(q, k, v, causal=causal, out=out, attention_chunk=size)

    def sequences(*tensors):
        q, k, v, out = (x.view(-1, size, *x.shape[2:]) for x in tensors)
        return pack.attention(q, k, v, causal=causal, out=out)

    for way, run in zip(CHUNKED, (chunks, sequences)):
        runs[way] = run
        check(run(q, k, v, out).view_as(out), q, k, v, causal, way, {"attention_chunk": size})


def line(name, times):
    ratios = [f"{times[way] / times['plain']:.3f}" for way in WAYS[1:]]
    ratios.append("{:.3f}".format(times[CHUNKED[0]] / times[CHUNKED[1]]) if CHUNKED[0] in times else "")
    print(f"| {name} | {times['plain'] * 1e6:.1f} | " + " | ".join(ratios) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=prefill.numbers, default=[64, 128, 256])
    parser.add_argument("--seqlen", type=prefill.numbers, default=[4096, 16384])
    parser.add_argument("--rows", type=prefill.numbers, default=[1, 5, 8, 10], help="of decode.py's table")
    parser.add_argument("--seed", type=int, default=1)
    prefill.add_options(parser)
    options = parser.parse_args()
    ptxpack = prefill.open_module(options)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, bf16, median of {options.rounds}\n")
    print("| causal prompts: batch, heads, rows, d; decoding: batch, heads, key heads, keys | us | " + " | ".join(WAYS[1:] + CHUNKED[:1]) + " |\n" +
          "|" + "---|" * (2 + len(WAYS)))
    for dim in options.head_dim:
        for seqlen in options.seqlen:
            batch, heads = prefill.TOKENS // seqlen, prefill.HIDDEN // dim

            def prompts():
                q, k, v = (torch.randn(batch, seqlen, heads, dim, device="cuda").bfloat16() for _ in range(3))
                return q, k, v, torch.empty_like(q)

            line(f"{batch}, {heads}, {seqlen}, {dim}", timed(ptxpack, prompts, 1 << 40, True, options))
    for row in options.rows:
        batch, heads, key_heads, keys = decode.SHAPES[row]

        def caches():
            q = torch.randn(batch, 1, heads, 128, device="cuda").bfloat16()
            k, v = (torch.randn(batch, keys, key_heads, 128, device="cuda").bfloat16() for _ in range(2))
            return q, k, v, torch.empty_like(q)

        line(f"{batch}, {heads}, {key_heads}, {keys}", timed(ptxpack, caches, 4 * batch * keys * key_heads * 128, False, options))


if __name__ == "__main__":
    main()
