"""malformed.py PROGRAM FOLDER WORK - what a folder may have wrong is refused with one line that names it, and no file, whatever is in
it, does anything but that.  PROGRAM --check is built with sanitizers where the compiler has them."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys

program, good, work = sys.argv[1:4]
ran = failed = 0


def check(folder):
    global ran
    ran += 1
    run = subprocess.run([program, folder, "--check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return run.returncode, run.stderr.decode(errors="replace")


def fail(text):
    global failed
    failed += 1
    print("FAIL: malformed:", text)


def refused(pattern, what, folder=work):
    status, line = check(folder)
    if status != 1 or pattern not in line or line.count("\n") != 1:
        fail(f"{what}: status {status}, '{pattern}' is expected in: {line[:600]}")


def read(name):
    with open(os.path.join(good, name), "rb") as file:
        return file.read()


def put(name, data):
    with open(os.path.join(work, name), "wb") as file:
        file.write(data)


CONFIG, MODEL = read("config.json"), read("model.safetensors")
LENGTH = struct.unpack("<Q", MODEL[:8])[0]
HEADER, DATA = MODEL[8:8 + LENGTH], MODEL[8 + LENGTH:]


def restore():
    put("config.json", CONFIG)
    put("model.safetensors", MODEL)


def config(pattern, **changes):
    """A configuration with these members; None is null, and ... takes one away."""
    c = json.loads(CONFIG)
    c.update(changes)
    put("config.json", json.dumps({name: value for name, value in c.items() if value is not ...}).encode())
    refused(pattern, f"config.json with {changes}")


def raw_config(pattern, text):
    put("config.json", text)
    refused(pattern, f"config.json {text[:40]!r}")


def with_header(text):
    put("model.safetensors", struct.pack("<Q", len(text)) + text + DATA)


def header(pattern, change, what):
    h = json.loads(HEADER)
    change(h)
    text = json.dumps(h).encode()
    with_header(text + b" " * (-len(text) % 8))
    refused(pattern, what)


def test_config():
    config("model_type gemma2 is not supported", model_type="gemma2")
    config("model_type is missing", model_type=...)
    config("hidden_act gelu is not supported", hidden_act="gelu")
    config("quantization_config is not supported", quantization_config={"quant_method": "fp8"})
    config("rope_type yarn is not supported", rope_scaling={"rope_type": "yarn", "factor": 2.0})
    config("rope_type linear is not supported", rope_scaling={"type": "linear", "factor": 2.0})
    config("factor is not a number above 0", rope_scaling={"rope_type": "llama3"})
    config("full_attention, are not supported", rope_parameters={"full_attention": {"rope_type": "default"}})
    config("partial_rotary_factor", partial_rotary_factor=0.5)
    config("high_freq_factor is not above", rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                                                          "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
    config("sliding_window is not supported in llama", sliding_window=4096)
    config("sliding_window is missing", model_type="mistral")
    config("use_sliding_window is not supported", model_type="qwen2", use_sliding_window=True)
    config("layer_types", layer_types=["full_attention", "sliding_attention"])
    config("num_key_value_heads", num_key_value_heads=3)
    config("2 of 513 experts are not supported", model_type="mixtral", num_local_experts=513)
    config("17 of 128 experts are not supported", model_type="qwen3_moe", num_experts_per_tok=17)
    config("3 of 2 experts are not supported", model_type="mixtral", num_local_experts=2, num_experts_per_tok=3)
    config("layers without experts", model_type="qwen3_moe", decoder_sparse_step=2)
    config("layers without experts", model_type="qwen3_moe", mlp_only_layers=[1])
    config("norm_topk_prob is neither true nor false", model_type="qwen3_moe", norm_topk_prob=1)
    config("no tensor model.layers.0.block_sparse_moe.gate.weight", model_type="mixtral")
    config("hidden_size is not a whole number", hidden_size=64.5)
    config("hidden_size is not a whole number", hidden_size=-64)
    config("hidden_size is not a whole number", hidden_size=...)
    config("num_hidden_layers is not a whole number", num_hidden_layers=1 << 40)
    config("head_dim", head_dim=24)
    config("attention_bias is neither true nor false", attention_bias="yes")
    config("rms_norm_eps is not a number above 0", rms_norm_eps=0)
    config("eos_token_id", eos_token_id=[1.5])
    config("embed_tokens.weight: config.json makes it 257 x 64", vocab_size=257)
    config("no tensor model.layers.2.input_layernorm.weight", num_hidden_layers=3)
    config("model.layers.1.input_layernorm.weight has no place", num_hidden_layers=1)
    config("has no place in such a model", mlp_bias=False)
    raw_config("is expected", b'{"a": tru}')
    raw_config("something behind the end", CONFIG + b"}")
    raw_config("a name for the second time", b'{"a": 1, "a": 2}')
    raw_config("a digit", b'{"a": 01x}'.replace(b"01x", b"-"))
    raw_config("',' or the end", b'{"a": 01}')
    raw_config("too many levels", b"[" * 100000)
    raw_config("control character", b'{"a\n": 1}')
    raw_config("half a surrogate pair", b'{"\\ud800\\u0041": 1}')
    raw_config("a NUL in a string", b'{"\\u0000": 1}')
    raw_config("no object", b'[1, "\\ud83d\\ude00\\u00e9\\n", {}, [], null, false, -0.5e-3]')
    raw_config("an empty one", b"")
    os.remove(os.path.join(work, "config.json"))
    refused("config.json: No such file", "no config.json")
    restore()


def test_safetensors():
    first = "model.embed_tokens.weight"

    def change(**members):
        return lambda h: h[first].update(members)
    begin, end = json.loads(HEADER)[first]["data_offsets"]
    header("dtype F32 is not supported", change(dtype="F32", shape=[(end - begin) // 4]), "f32")
    header("mixed dtypes", change(dtype="F16"), "two dtypes")
    header("the dtype F3 is not known", change(dtype="F3"), "an unknown dtype")
    header("dtype and shape are expected", change(shape=7), "a shape that is a number")
    header("the shape is not up to 4", change(shape=[1 << 40, 1 << 40]), "a product above 2^64")
    header("the shape is not up to 4", change(shape=[1, 1, 1, 1, 1]), "five dimensions")
    header("as many bytes", change(shape=[1 << 50, 1 << 13]), "bytes above 2^64")
    header("as many bytes", change(data_offsets=[begin, end - 2]), "too few bytes")
    header("not within the data", change(data_offsets=[begin, 1 << 50]), "bytes outside of the file")
    header("not within the data", change(data_offsets=[end, begin]), "a negative extent")
    header("not two whole numbers", change(data_offsets=[begin]), "one offset")
    header("not two whole numbers", change(data_offsets=[-2, end]), "a negative offset")
    header("a gap or an overlap", lambda h: h.pop(first), "a gap")
    header("no tensor lm_head.weight", lambda h: h.update({"head": h.pop("lm_head.weight")}), "another name")
    put("model.safetensors", MODEL[:-2])
    refused("not within the data", "a file that was cut off")
    put("model.safetensors", MODEL + b"\0\0")
    refused("belong to no tensor", "a file with more at its end")
    put("model.safetensors", MODEL[:5])
    refused("the header does not fit", "five bytes")
    put("model.safetensors", struct.pack("<Q", 1 << 63) + MODEL[8:])
    refused("the header does not fit", "a header of 2^63 bytes")
    with_header(b"\1" + HEADER)
    refused("byte 0", "a header that is no JSON")
    text = json.dumps(json.loads(HEADER)).encode()
    with_header(text + b" " * (1 + len(text) % 2))
    refused("not aligned", "data at an odd address") if (8 + len(text) + 1 + len(text) % 2) % 2 else None
    index = os.path.join(work, "model.safetensors.index.json")
    for pattern, text in ((b"weight_map is expected", b"{}"), (b"names no tensors", b'{"weight_map": {}}'), (b"in this folder", b'{"weight_map": {"a": "../x.safetensors"}}'),
                          (b"No such file", b'{"weight_map": {"a": "x.safetensors"}}')):
        put("model.safetensors.index.json", text)
        refused(pattern.decode(), f"an index {text.decode()}")
    put("other.safetensors", MODEL)
    put("model.safetensors.index.json", b'{"weight_map": {"a": "model.safetensors", "b": "other.safetensors", "c": "model.safetensors"}}')
    restore()
    refused(", too", "a tensor in two files")
    os.remove(os.path.join(work, "other.safetensors"))
    os.remove(index)
    os.remove(os.path.join(work, "model.safetensors"))
    refused("model.safetensors: No such file", "a folder without safetensors")
    put("model.safetensors", struct.pack("<Q", 2) + b"{}")
    refused("there are no tensors", "a file without tensors")
    restore()


def test_random(count):
    """Bytes of the texts changed, inserted, removed, or all from some place on."""
    draw = random.Random(1)
    for i in range(count):
        text = bytearray(CONFIG if i % 2 else HEADER)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text) or 1)
            kind = draw.randrange(4)
            if kind == 0 and text:
                text[at] = draw.choice(b'{}[]",:0123456789.eE+-\\u truefalsn\0\xff')
            elif kind == 1:
                text.insert(at, draw.choice(b'{}[]",:-\\u0'))
            elif kind == 2:
                del text[at:at + draw.randint(1, 8)]
            else:
                del text[at:]
        put("config.json", bytes(text) if i % 2 else CONFIG)
        if i % 2:
            put("model.safetensors", MODEL)
        else:
            with_header(bytes(text))
        status, line = check(work)
        if status not in (0, 1) or status == 1 and (line.count("\n") != 1 or not line.startswith("llama: ")):
            fail(f"random {i}: status {status}: {line[:600]} of {bytes(text)!r}"[:1500])


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
restore()
if check(work)[0] != 0:
    fail(f"the folder itself: {check(work)}")
test_config()
test_safetensors()
test_random(400)
print(f"{ran} folders, {failed} failures")
sys.exit(failed != 0)
