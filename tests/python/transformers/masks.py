"""masks.py - what ptxpack.transformers reads from mask functions and attention masks, against the masks that transformers makes for
sdpa: the same keys for every token, or refused.  transformers.sh runs it."""
import inspect
import random
import unittest

import torch
import transformers
from transformers import masking_utils

import ptxpack
import ptxpack.transformers

SEED, CASES, BATCH = 5, 1500, 3
POSITIONS = "cache_position" in inspect.signature(masking_utils.sdpa_mask).parameters  # in place of q_length and q_offset


def seen(mask):
    """The pairs that attention() lets see each other, [batch, rows, keys]."""
    form, arrays = mask.form, {name: row[:, None, None] for name, row in mask.arrays().items()}
    lengths_q, lengths_k, pads = (arrays.get(name, torch.tensor([[[most]]])) for name, most in (
        ("seqused_q", form.rows), ("seqused_k", form.keys), ("leftpad_k", 0)))
    i, j = torch.arange(form.rows)[:, None], torch.arange(form.keys)
    own = i + lengths_k - lengths_q
    visible = (i < lengths_q) & (j >= pads) & (j < lengths_k)
    visible = visible & (j >= own - form.left) if form.left >= 0 else visible
    visible = visible & (j <= own + form.right) if form.right >= 0 else visible
    visible = visible & ((j - pads) // form.chunk == (own - pads) // form.chunk) if form.chunk else visible
    return visible.expand(BATCH, form.rows, form.keys)


def functions(rng, mask):
    """A mask function, and whether it goes by positions."""
    padded = torch.zeros(BATCH, dtype=torch.int64) if mask is None else (mask.cumsum(1) == 0).sum(1)
    size = rng.randrange(1, 30)
    kinds = [(masking_utils.causal_mask_function, True), (masking_utils.sliding_window_causal_mask_function(size), True),
             (masking_utils.chunked_causal_mask_function(rng.randrange(1, 60), padded), True),
             (masking_utils.and_masks(masking_utils.sliding_window_overlay(size), masking_utils.causal_mask_function,
                                      masking_utils.sliding_window_overlay(7)), True)]
    if hasattr(masking_utils, "bidirectional_mask_function"):
        kinds.append((masking_utils.bidirectional_mask_function, False))
    if hasattr(masking_utils, "sliding_window_bidirectional_mask_function"):
        kinds.append((masking_utils.sliding_window_bidirectional_mask_function(size), True))
    return rng.choice(kinds)


def padding(rng, length):
    """An attention mask: none, ones, with padding on either side, or anything."""
    kind = rng.randrange(6)
    mask = torch.zeros(BATCH, length, dtype=torch.bool)
    for row in mask:
        first = rng.randrange(length) if kind in (2, 4) else 0
        last = rng.randrange(first, length + 1) if kind in (3, 4) else length
        row[first:last] = True
        if kind == 5:
            row[rng.randrange(length)] = False
    return mask if kind else None


class Masks(unittest.TestCase):
    def make(self, kind, rows, first, keys, skipped, function, mask):
        place = {"cache_position": torch.arange(first, first + rows)} if POSITIONS else {"q_length": rows, "q_offset": first}
        return kind(batch_size=BATCH, kv_length=keys, kv_offset=skipped, mask_function=function, attention_mask=mask,
                    allow_is_causal_skip=False, **place)

    def test_random(self):
        rng, refused, equal = random.Random(SEED), 0, 0
        for _ in range(CASES):
            rows, first = rng.randrange(1, 20), rng.choice((0, 0, rng.randrange(40)))
            skipped = rng.choice((0, 0, rng.randrange(first + 1)))  # keys that a sliding cache has dropped
            keys = first + rows - skipped + rng.choice((0, 0, rng.randrange(10)))  # and those that a static one does not have yet
            mask = padding(rng, first + rows)
            function, by_position = functions(rng, mask)
            want = self.make(masking_utils.sdpa_mask, rows, first, keys, skipped, function, mask)[:, 0]
            tokens = torch.ones(BATCH, rows, dtype=torch.bool) if mask is None else mask[:, first:]
            try:
                got = seen(self.make(transformers.AttentionMaskInterface()["ptxpack"], rows, first, keys, skipped, function, mask))
            except ptxpack.Unsupported as why:
                refused += 1
                line = str(why)
                self.assertTrue(mask is not None and "between the tokens" in line or "queries whose last one" in line or "chunks" in line, line)
                continue
            tokens = tokens if by_position else torch.ones_like(tokens)
            self.assertTrue(torch.equal(got[tokens], want[tokens]), (rows, first, skipped, keys, mask))
            equal += 1
        print("%d masks are equal, %d refused; seed %d" % (equal, refused, SEED))
        self.assertGreater(equal, CASES // 2)

    def test_moved(self):
        """A mask may be moved; whoever computes with it does not know what it is."""
        made = self.make(transformers.AttentionMaskInterface()["ptxpack"], 5, 0, 5, 0, masking_utils.causal_mask_function,
                         torch.tensor([[0, 1, 1, 1, 1]] * BATCH))
        self.assertEqual((made.dim(), made.to("cpu", copy=True).form, len(made.clone().arrays())), (4, made.form, 1))
        scores = torch.zeros(BATCH, 1, 5, 5)
        for run in (lambda: scores + made, lambda: made[:, :, :, :2], lambda: scores.masked_fill(made, 0), made.bool,
                    lambda: made.to(torch.float16), lambda: (1 - made) * -1e4):
            with self.assertRaisesRegex(ptxpack.Unsupported, "the model computes with its mask"):
                run()


ptxpack.transformers.register()
if __name__ == "__main__":
    unittest.main(verbosity=1)
