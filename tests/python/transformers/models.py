"""models.py - tiny models of Hugging Face transformers with random weights and attn_implementation="ptxpack", on the
emulated driver, or with PTXPACK_DEVICE=gpu on a GPU: logits against eager in f32, whose errors sdpa sets, and what is refused.
transformers.sh runs it."""
import copy
import inspect
import os
import unittest
import unittest.mock

import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache, StaticCache, masking_utils

import ptxpack
import ptxpack.transformers

SEED, VOCABULARY, WINDOW, NEW = 11, 96, 16, 32
DEVICE = "cpu" if os.environ["PTXPACK_DEVICE"] == "emu" else "cuda"
VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
STATIC_MLA = VERSION >= (5, 0)  # whether a StaticCache takes values of another head dimension than keys
CACHE = "cache" if "cache" in inspect.signature(masking_utils.create_causal_mask).parameters else "past_key_values"
COMMON = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2, pad_token_id=0, bos_token_id=1, eos_token_id=None)
EXPERTS = dict(num_experts_per_tok=2, num_local_experts=2)  # of which all are chosen, so that no rounding changes the choice
LAYERS = ["sliding_attention", "full_attention"]
MODELS = {
    "llama": dict(head_dim=16),
    "qwen3": dict(head_dim=32),
    "mistral": dict(head_dim=16, sliding_window=WINDOW),
    "gemma2": dict(head_dim=16, sliding_window=WINDOW, attn_logit_softcapping=3.0, query_pre_attn_scalar=16, layer_types=LAYERS),
    "gemma3_text": dict(head_dim=32, sliding_window=WINDOW, query_pre_attn_scalar=32, layer_types=LAYERS),
    "gpt_oss": dict(head_dim=16, sliding_window=WINDOW, layer_types=LAYERS, **EXPERTS),
    "deepseek_v3": dict(num_key_value_heads=4, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, q_lora_rank=32, kv_lora_rank=32,
                        first_k_dense_replace=1, moe_intermediate_size=32, n_routed_experts=2, n_group=1, topk_group=1,
                        num_experts_per_tok=2),
    "llama4_text": dict(head_dim=16, intermediate_size_mlp=96, moe_layers=[], attention_chunk_size=16, no_rope_layers=[1, 0],
                        layer_types=["chunked_attention", "full_attention"]),
    "phi3": dict(sliding_window=WINDOW),
}
WITHOUT_SDPA = ("gemma2", "gpt_oss")  # softcap and sinks: their errors are those of eager in the same type


def configuration(name, **more):
    return transformers.AutoConfig.for_model(name, **{**COMMON, **MODELS.get(name, {}), **more})


def model(config, implementation, dtype, weights=None, kind=AutoModelForCausalLM):
    torch.manual_seed(SEED)
    made = kind.from_config(copy.deepcopy(config), attn_implementation=implementation).eval()
    for name, parameter in made.named_parameters():
        if name.endswith("sinks"):
            torch.nn.init.normal_(parameter)
    if weights is not None:
        made.load_state_dict(weights)
    return made.to(DEVICE, dtype)


def three(config, dtype, kind=AutoModelForCausalLM, other="sdpa"):
    """The same weights in eager f32, and in `dtype` by another implementation and by ptxpack."""
    weights = {name: value.to(dtype).float() if value.is_floating_point() else value
               for name, value in model(config, "eager", torch.float32, kind=kind).state_dict().items()}
    return [model(config, implementation, kept, weights, kind)
            for implementation, kept in (("eager", torch.float32), (other, dtype), ("ptxpack", dtype))]


def tokens(batch, length):
    torch.manual_seed(SEED)
    return torch.randint(1, VOCABULARY, (batch, length)).to(DEVICE)


def prompts(pads, length):
    """Token ids and attention mask of sequences with so much padding on the left."""
    ids, mask = tokens(len(pads), length), torch.ones(len(pads), length, dtype=torch.int64, device=DEVICE)
    for row, pad in enumerate(pads):
        mask[row, :pad] = 0
    return ids * mask, mask


def positions(mask):
    return (mask.cumsum(-1) - 1).clamp(min=0)


def stepwise(decoder, ids, mask, prompt, cache):
    """Logits of all positions with a cache: of the prompt at once, of 9 more at once, of the others one by one."""
    logits, at = [], 0
    for end in (prompt, *range(prompt + 9, ids.shape[1] + 1)):
        more = {"cache_position": torch.arange(at, end, device=DEVICE)} if VERSION < (5, 0) else {}
        logits.append(decoder(ids[:, at:end], attention_mask=mask[:, :end], position_ids=positions(mask)[:, at:end],
                              use_cache=True, **{CACHE: cache}, **more).logits)
        at = end
    return torch.cat(logits, 1)


class Models(unittest.TestCase):
    def compare(self, what, want, other, ours, rows=None):
        """The errors of ours are at most twice those of the other one in the same type."""
        rows = torch.ones(want.shape[:2], dtype=torch.bool, device=DEVICE) if rows is None else rows.bool()
        self.assertTrue(bool(torch.isfinite(ours).all()), what)
        errors = [(logits.float() - want)[rows] for logits in (other, ours)]
        mean = [float(error.norm() / want[rows].norm()) for error in errors]
        most = [float(error.abs().max()) for error in errors]
        print("%-34s relative error %.2e (other %.2e), largest %.2e (other %.2e)" % (what, mean[1], mean[0], most[1], most[0]))
        self.assertLessEqual(mean[1], 2 * mean[0], what)
        self.assertLessEqual(most[1], 2 * most[0], what)
        return most[1]

    def each(self, body, **more):
        """body(what, config, three models) for every model in both types, with more in its configuration."""
        for name in MODELS:
            for dtype in (torch.bfloat16, torch.float16):
                what, config = "%s, %s" % (name, str(dtype)[6:]), configuration(name, **more)
                with self.subTest(what), torch.no_grad():
                    body(what, config, three(config, dtype, other="eager" if name in WITHOUT_SDPA else "sdpa"))

    def test_logits(self):
        """Without padding, and with padding on either side."""
        def body(what, _, models):
            wanted, other, ours = models
            ids = tokens(1, 50)
            self.compare(what, *(decoder(ids).logits for decoder in (wanted, other, ours)))
            ids, mask = prompts((7, 0, 29), 40)
            inputs = dict(attention_mask=mask, position_ids=positions(mask))
            self.compare(what + ", left", *(decoder(ids, **inputs).logits for decoder in (wanted, other, ours)), mask)
            ids, mask = ids.flip(1), mask.flip(1)
            self.compare(what + ", right", *(decoder(ids, attention_mask=mask).logits for decoder in (wanted, other, ours)), mask)
        self.each(body)

    def test_packed(self):
        """Several sequences in a row, by their positions, and by cu_seq_lens, too."""
        lengths = (5, 24, 1, 20)
        places = torch.cat([torch.arange(length) for length in lengths])[None].to(DEVICE)
        starts = torch.tensor([0, 5, 29, 30, 50], dtype=torch.int32, device=DEVICE)
        given = dict(cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=24, max_length_k=24)

        def body(what, config, models):
            ours, ids = models[2], tokens(1, 50)
            apart = [torch.cat([decoder(part).logits for part in ids.split(lengths, 1)], 1) for decoder in models[:2]]
            if config.model_type == "gpt_oss":  # which does not look at positions for its masks
                with self.assertRaisesRegex(ptxpack.Unsupported, "position_ids start again"):
                    ours(ids, position_ids=places, use_cache=False)
            else:
                self.compare(what + ", packed", *apart, ours(ids, position_ids=places, use_cache=False).logits)
                twice = ours(torch.cat([ids, ids]), position_ids=torch.cat([places, places]), use_cache=False).logits
                self.compare(what + ", packed twice", *(torch.cat([logits, logits]) for logits in apart), twice)
            for more in ({"use_cache": False}, {CACHE: DynamicCache()}):
                self.compare(what + ", starts", *apart, ours(ids, position_ids=places, **more, **given).logits)
            if config.model_type != "llama4_text":  # whose attention is not told the positions
                with self.assertRaisesRegex(ptxpack.Unsupported, "position_ids start again"):
                    ours(ids, position_ids=places, use_cache=True)
        self.each(body, attention_chunk_size=50)  # llama4's: of the whole row

    def test_caches(self):
        """Token by token, of a padded batch: the logits of eager without a cache."""
        def body(what, config, models):
            wanted, other, ours = models
            ids, mask = prompts((5, 0), 40)
            want = wanted(ids, attention_mask=mask, position_ids=positions(mask)).logits
            caches = {"dynamic": lambda: DynamicCache(config=config)}
            if STATIC_MLA or config.model_type != "deepseek_v3":
                caches["static"] = lambda: StaticCache(config=config, max_cache_len=48)
            for kind, make in caches.items():
                self.compare("%s, %s" % (what, kind), want, *(stepwise(decoder, ids, mask, 12, make()) for decoder in (other, ours)), mask)
        self.each(body)

    def test_generation(self):
        """32 greedy tokens: as eager in f32, until two tokens are nearer to each other than the errors of the type."""
        def body(what, config, models):
            wanted, other, ours = models
            ids, mask = prompts((4, 0), 12)
            options = dict(attention_mask=mask, max_new_tokens=NEW, do_sample=False)
            want = wanted.generate(ids, **options)
            whole = torch.cat([mask, torch.ones(2, NEW, dtype=torch.int64, device=DEVICE)], 1)
            logits, error = [decoder(want, attention_mask=whole, position_ids=positions(whole)).logits.float()
                             for decoder in (wanted, other)]
            bound = 2 * 2 * float((logits - error)[whole.bool()].abs().max())  # twice the other's error, of two logits
            for more in ({}, {"cache_implementation": "static"}) if STATIC_MLA or config.model_type != "deepseek_v3" else ({},):
                got = ours.generate(ids, **options, **more)
                self.assertEqual(got.shape, want.shape)
                same = [(got[row] != want[row]).nonzero()[:, 0].tolist() for row in range(2)]
                for row, differ in enumerate(same):
                    if differ:
                        at = logits[row, differ[0] - 1]
                        self.assertLessEqual(float(at[want[row, differ[0]]] - at[got[row, differ[0]]]), bound, what)
                print("%-34s %s of %d tokens as in f32" % (what + "".join(", " + value for value in more.values()), " and ".join(
                    str(differ[0] - 12 if differ else NEW) for differ in same), NEW))
        self.each(body)

    @unittest.skipIf(VERSION < (5, 0), "BERT has the attention of AttentionInterface from 5.0 on")
    def test_bert(self):
        """A mask to both sides; padding anywhere but between tokens."""
        for dtype in (torch.bfloat16, torch.float16):
            with torch.no_grad():
                config = transformers.BertConfig(**{**COMMON, "num_key_value_heads": None, "eos_token_id": 2})
                models = three(config, dtype, AutoModel)
                ids, mask = prompts((7, 0, 29), 40)
                for what, tokens_of, seen in (("none", ids[1:2], None), ("left", ids, mask), ("right", ids.flip(1), mask.flip(1))):
                    run = [encoder(tokens_of, attention_mask=seen).last_hidden_state for encoder in models]
                    self.compare("bert, %s, %s" % (str(dtype)[6:], what), *run, seen)

    def test_chunks(self):
        """Llama 4 within a chunk, and beyond it, with padding, too."""
        with torch.no_grad():
            for chunk, length in ((50, 50), (20, 50), (7, 40)):
                wanted, other, ours = three(configuration("llama4_text", attention_chunk_size=chunk), torch.float16)
                self.compare("llama4_text, chunk of %d" % chunk, *(
                    decoder(tokens(2, length)).logits for decoder in (wanted, other, ours)))
            ids, mask = prompts((0, 13, 25), 40)
            self.compare("llama4_text, chunk of 7, padding", *(
                decoder(ids, attention_mask=mask).logits for decoder in (wanted, other, ours)), mask)

    def test_features_matter(self):
        """A window, a softcap or a sink that is left out shows: the comparisons above would notice."""
        with torch.no_grad():
            for name, less in (("mistral", dict(sliding_window=None)), ("gemma2", dict(attn_logit_softcapping=None)),
                               ("gemma3_text", dict(sliding_window=64)), ("phi3", dict(sliding_window=None))):
                with self.subTest(name):
                    wanted, other, _ = three(configuration(name), torch.bfloat16, other="eager")
                    without = model(configuration(name, **less), "eager", torch.float32, wanted.state_dict())
                    want, error, missing = (decoder(tokens(1, 50)).logits.float() for decoder in (wanted, other, without))
                    self.assertGreater(float((missing - want).norm()), 4 * float((error - want).norm()))
            wanted, other, _ = three(configuration("gpt_oss"), torch.bfloat16, other="eager")
            want, error = (decoder(tokens(1, 50)).logits.float() for decoder in (wanted, other))
            for layer in wanted.model.layers:
                layer.self_attn.sinks.fill_(-torch.inf)
            self.assertGreater(float((wanted(tokens(1, 50)).logits - want).norm()), 4 * float((error - want).norm()))

    def test_compile(self):
        """A model; and an attention without a break of the graph, by masks that differ in their form alone."""
        with torch.no_grad():
            ours = model(configuration("mistral"), "ptxpack", torch.bfloat16)
            ids, mask = prompts((7, 0), 40)
            compiled = torch.compile(ours, backend="aot_eager")
            self.assertTrue(torch.equal(compiled(ids, attention_mask=mask).logits, ours(ids, attention_mask=mask).logits))
            make, attend = transformers.AttentionMaskInterface()["ptxpack"], transformers.AttentionInterface()["ptxpack"]
            layer, q = ours.model.layers[0].self_attn, torch.randn(2, 2, 40, 16, dtype=torch.float16, device=DEVICE)
            compiled = torch.compile(lambda mask: attend(layer, q, q, q, mask)[0], backend="aot_eager", fullgraph=True)
            place = {"cache_position": torch.arange(40, device=DEVICE)} if VERSION < (5, 0) else {"q_length": 40, "device": DEVICE}
            found = []
            for function in (masking_utils.causal_mask_function, *map(masking_utils.sliding_window_causal_mask_function, (5, 9))):
                made = make(batch_size=2, kv_length=40, mask_function=function, attention_mask=mask, **place)
                found.append(attend(layer, q, q, q, made)[0])
                self.assertTrue(torch.equal(compiled(made), found[-1]))
            self.assertFalse(torch.equal(found[0], found[1]) or torch.equal(found[1], found[2]))

    @unittest.skipIf(CACHE != "cache", "an interface of later versions")
    def test_compiled_step(self):
        """A step of a StaticCache in one graph, with a mask that is made before, as generate() does it."""
        for name in ("llama", "gpt_oss"):
            with torch.no_grad():
                torch._dynamo.reset()
                config, results = configuration(name), []
                ours = model(config, "ptxpack", torch.bfloat16)
                for step in (ours, torch.compile(ours, backend="aot_eager", fullgraph=True)):
                    ids, mask = prompts((4, 0), 14)
                    cache = StaticCache(config=config, max_cache_len=24)
                    ours(ids[:, :12], attention_mask=mask[:, :12], use_cache=True, **{CACHE: cache})
                    for at in (12, 13):
                        ready = masking_utils.create_masks_for_generate(
                            ours.config, torch.zeros(2, 1, 64, device=DEVICE), mask[:, :at + 1], **{CACHE: cache})
                        results.append(step(ids[:, at:at + 1], attention_mask=ready, use_cache=True,
                                            position_ids=positions(mask)[:, at:at + 1], **{CACHE: cache}).logits)
                self.assertTrue(torch.equal(results[0], results[2]) and torch.equal(results[1], results[3]))


class Refusals(unittest.TestCase):
    def setUp(self):
        self.decoder = model(configuration("llama"), "ptxpack", torch.bfloat16)

    def refuse(self, line, run):
        with self.assertRaises(ptxpack.Error) as caught:
            run()
        self.assertRegex(str(caught.exception), line)
        self.assertNotIn("\n", str(caught.exception))

    def test_refusals(self):
        ids, ones = tokens(2, 20), torch.ones(2, 20, dtype=torch.int64, device=DEVICE)
        hole, four = ones.clone(), torch.ones(2, 1, 20, 20, dtype=torch.bool, device=DEVICE).tril()
        hole[1, 7] = 0
        self.refuse("query requires a gradient", lambda: self.decoder(ids))
        with torch.no_grad():
            self.refuse("padding between the tokens", lambda: self.decoder(ids, attention_mask=hole))
            self.refuse(r"mask of the caller or of the model, torch.bool \(2, 1, 20, 20\)", lambda: self.decoder(ids, attention_mask=four))
            self.refuse("output_attentions is not supported", lambda: self.decoder(ids, output_attentions=True))
            self.refuse("the argument position_bias is not known", lambda: self.decoder(ids, position_bias=ones))
            self.refuse("query is torch.float32, and must be", lambda: self.decoder.float()(ids))
            wide = model(configuration("llama", head_dim=584), "ptxpack", torch.bfloat16)
            self.refuse("head_dim", lambda: wide(ids))
            odd = model(configuration("llama", head_dim=20), "ptxpack", torch.bfloat16)
            self.refuse("head_dim|multiple", lambda: odd(ids))
            dropping = model(configuration("llama", attention_dropout=0.1), "ptxpack", torch.bfloat16).train()
            self.refuse("dropout 0.1 is not supported", lambda: dropping(ids))

    def test_starts(self):
        starts, ids = torch.tensor([0, 8, 20], device=DEVICE), tokens(1, 20)
        with torch.no_grad():
            less = self.decoder(ids, cu_seq_lens_q=starts[:2], cu_seq_lens_k=starts[:2]).logits
            whole = self.decoder(ids, cu_seq_lens_q=starts, cu_seq_lens_k=starts).logits
            self.assertTrue(bool(torch.isfinite(less).all()))
            self.assertLess(float((less - whole)[:, :8].abs().max()), 0.1)  # of logits up to 7
            self.refuse("must be given together", lambda: self.decoder(ids, cu_seq_lens_q=starts))
            self.refuse("with a batch of 2", lambda: self.decoder(ids.expand(2, -1), cu_seq_lens_q=starts, cu_seq_lens_k=starts))

    @unittest.skipIf(CACHE != "cache", "an interface of later versions")
    def test_other_masks(self):
        """Tokens of an image that see each other; a mask that somebody wrote."""
        ids = tokens(1, 20)
        with torch.no_grad():
            config = configuration("llama")
            config._attn_implementation = "ptxpack"
            embeddings, utils = torch.zeros(1, 20, 64, device=DEVICE), masking_utils
            prefix = utils.and_masks(lambda batch, head, q, k: k < 5)
            self.refuse("the mask .*or_masks.* is none of causal", lambda: utils.create_causal_mask(
                config=config, inputs_embeds=embeddings, attention_mask=None, **{CACHE: None}, or_mask_function=prefix))
            self.refuse("the mask .*lambda.* is none of causal", lambda: utils.create_causal_mask(
                config=config, inputs_embeds=embeddings, attention_mask=None, **{CACHE: None}, and_mask_function=prefix))
            self.refuse("gives no mask for 1 queries and 20 keys", lambda: self.attend(1, 20))
            self.refuse("sliding window of 8", lambda: self.attend(20, 20, sliding_window=8))
            mask = utils.create_causal_mask(config=config, inputs_embeds=embeddings, attention_mask=None, **{CACHE: None})
            self.refuse("the mask is of 20 queries and 20 keys, and there are 1 and 20", lambda: self.attend(1, 20, mask=mask))

    def attend(self, rows, keys, mask=None, **more):
        attention = transformers.AttentionInterface()["ptxpack"]
        q, k = (torch.zeros(1, 2, length, 16, dtype=torch.float16, device=DEVICE) for length in (rows, keys))
        return attention(torch.nn.Module(), q, k, k, mask, **more)

    def test_old_version(self):
        with unittest.mock.patch.object(transformers, "__version__", "4.56.2"):
            self.refuse("^transformers 4.56.2 is not supported: version 4.57 or later is needed$", ptxpack.transformers.register)


ptxpack.transformers.register()
if __name__ == "__main__":
    print("transformers %s, seed %d" % (transformers.__version__, SEED))
    unittest.main(verbosity=1)
