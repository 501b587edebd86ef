"""compare.py - the logits of tools/examples/llama against those of Hugging Face transformers.

    compare.py recorded FAMILY LOGITS.npy DRAWN          against tests/data/llama.txt
    compare.py transformers FOLDER LOGITS.npy PROMPT DRAWN [PROMPT DRAWN...]
    compare.py record OUT FOLDER FAMILY [FOLDER FAMILY...]   writes the file anew, with transformers

DRAWN are the tokens that were drawn after a prompt.  transformers computes in f32 from the same 16-bit weights."""

import os
import struct
import sys

PROMPT = [(i * 37 + 11) % 250 for i in range(45)]
DRAWN = 3
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "llama.txt")
# The device rounds to 16 bits after each product, norm and attention.  Parts of the largest logit of a row.
ALLOWED = {"llama": 6e-2, "mistral": 8e-3, "qwen2": 8e-3, "qwen3": 6e-2, "mixtral": 8e-3, "qwen3_moe": 6e-2}


def read_npy(path):
    """The rows of a two-dimensional array of f32, with the standard library alone."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<H", data[8:10])[0]
    fields = eval(data[10:10 + length], {})
    assert data[:8] == b"\x93NUMPY\x01\0" and (10 + length) % 64 == 0 and fields["descr"] == "<f4", "no such .npy file"
    rows, columns = fields["shape"]
    assert len(data) == 10 + length + 4 * rows * columns, "the file has another size than its header says"
    values = struct.unpack(f"<{rows * columns}f", data[10 + length:])
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def ids(text):
    return [int(word) for word in text.replace(",", " ").split()]


def error(got, want):
    """The largest difference of a row, as a part of its largest logit."""
    assert len(got) == len(want), f"{len(got)} logits for {len(want)}"
    return max(abs(a - b) if a == a else float("inf") for a, b in zip(got, want)) / max(map(abs, want))


def judge(family, got, want):
    assert len(got) == len(want), f"{len(got)} rows for {len(want)}"
    worst = max(map(error, got, want))
    print(f"{family}: {len(got)} rows, largest error {worst:.1e} of the largest logit")
    assert worst <= ALLOWED[family], f"{ALLOWED[family]} is allowed"


def load(folder):
    import torch
    import transformers
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def logits(model, tokens):
    """A row for each token."""
    import torch
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].tolist()


def recorded(family, path, drawn):
    with open(DATA) as file:
        rows = [line.split() for line in file if line.split(maxsplit=1)[0] == family]
    tokens = [int(row[1]) for row in rows]
    assert rows and ids(drawn) == tokens, f"{family}: {drawn} was drawn, {tokens} is recorded"
    judge(family, read_npy(path), [[float(word) for word in row[2:]] for row in rows])


def transformers_logits(folder, path, *sequences):
    model, want = load(folder), []
    for prompt, drawn in zip(map(ids, sequences[::2]), map(ids, sequences[1::2])):
        want += logits(model, prompt + drawn[:-1])[len(prompt) - 1:]
    judge(model.config.model_type, read_npy(path), want)


def record(out, *models):
    """A line for each token that is drawn after PROMPT: family, token, logits."""
    with open(out, "w") as file:
        file.write("# made by tests/tools/llama/compare.py record, from the checkpoints of checkpoint.py\n")
        for folder, family in zip(models[::2], models[1::2]):
            model, tokens = load(folder), list(PROMPT)
            for _ in range(DRAWN):
                row = logits(model, tokens)[-1]
                tokens.append(max(range(len(row)), key=row.__getitem__))
                file.write(f"{family} {tokens[-1]} " + " ".join(f"{x:.4g}" for x in row) + "\n")
                print(family, "first before second by", sorted(row)[-1] - sorted(row)[-2], "of", max(map(abs, row)))


if __name__ == "__main__":
    {"recorded": recorded, "transformers": transformers_logits, "record": record}[sys.argv[1]](*sys.argv[2:])
