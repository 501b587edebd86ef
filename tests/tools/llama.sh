#!/bin/sh
# llama.sh - tools/examples/llama: builds by its Makefile; tiny models of each family, whose checkpoints are written here, agree with
# double precision, with recorded logits of Hugging Face transformers, and with transformers itself where $PTXPACK_TEST_PYTHON,
# else python3, has it; sequences join and leave; several GPUs; sampling; what is malformed is refused; a broken kernel is detected.
# All on the emulated driver.
# Usage: llama.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
build=$(cd "${1:-build}" && pwd) || exit 1
python=${PTXPACK_TEST_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIP: tools/llama: there is no $python"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 ran=0
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_EMU_FAULT PTXPACK_CACHE_DISABLE PTXPACK_FORBID_COMPILE PTXPACK_DEVICE MAKEFLAGS MFLAGS MAKELEVEL
export PTXPACK_CACHE_DIR="$work/cache" PTXPACK_DRIVER="$build/libptxpack-emu.so" PTXPACK_PTXJIT="$build/libptxpack-emu.so"
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error LLAMA="$work/program/llama"
compare=tests/tools/llama/compare.py families="llama mistral qwen2 qwen3 mixtral qwen3_moe"

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

skip() {
    echo "SKIP: tools/llama: $1"
}

# ---- it builds -------------------------------------------------------------------------------------------
cp -r tools/examples/llama "$work/program" && mkdir "$work/lib" && ln -s "$build/libptxpack.so" "$work/lib/libptxpack.so.0" || exit 1
make -C "$work/program" CFLAGS="-O1 -Wshadow -Werror" PTXPACK_CFLAGS="-I$build/include" \
    PTXPACK_LIBS="$build/libptxpack.so -Wl,-rpath,$work/lib" >"$work/log" 2>&1 || { cat "$work/log"; echo "FAIL: it does not build"; exit 1; }
ldd "$LLAMA" | grep -vE 'libptxpack|libc\.|libm\.|linux-vdso|ld-linux|libdl|libpthread' >"$work/log"
[ ! -s "$work/log" ] || fail "it needs $(cat "$work/log")"
for family in $families; do
    "$python" tests/tools/llama/checkpoint.py $family "$work/$family" || exit 1
done

# llama FAMILY ARGUMENT...: runs it; $work/out has the tokens, $work/err the rest
llama() {
    family=$1
    shift
    ran=$((ran + 1))
    "$LLAMA" "$work/$family" "$@" >"$work/out" 2>"$work/err" </dev/null ||
        fail "$family $* (sm_${PTXPACK_EMU_SM:-90}): status $?: $(cat "$work/err")"
}

# verified ROWS: the last run has compared so many rows with double precision
verified() {
    grep -q "^verified: $1 rows" "$work/err" || fail "$family: $1 rows are not verified: $(cat "$work/err")"
}

# ---- it computes what the model is ---------------------------------------------------------------------------
# The prompt of the recorded data has three chunks, pages that are not full, and is longer than Mistral's window.
long=$("$python" -c "import sys; sys.path.insert(0, 'tests/tools/llama'); from compare import PROMPT; print(*PROMPT, sep=',')") || exit 1
with_transformers=yes
"$python" -c 'import torch, transformers as t; assert int(t.__version__.split(".")[0]) >= 5' 2>/dev/null || { # 4 knows no rope_parameters
    with_transformers=
    skip "$python has no PyTorch with transformers 5: the logits are compared with recorded ones; PTXPACK_TEST_PYTHON may name one that has"
}
# Chunks of up to 16 rows have the norm in the product after it, which rounds elsewhere: a row of qwen3_moe would then have another expert
# than in the recorded data, almost equally likely.
for family in $families; do
    chunk=16
    [ $family = qwen3_moe ] && chunk=20
    llama $family --prompt "$long" --chunk $chunk --new 3 --verify --logits "$work/logits.npy"
    verified 3
    "$python" $compare recorded $family "$work/logits.npy" "$(cat "$work/out")" || fail "$family: recorded logits"
    [ -n "$with_transformers" ] || continue
    llama $family --prompt "$long" --prompt 7,8 --chunk 32 --page 8 --new 5 --logits "$work/logits.npy"
    "$python" $compare transformers "$work/$family" "$work/logits.npy" "$long" "$(sed -n 1p "$work/out")" 7,8 "$(sed -n 2p "$work/out")" ||
        fail "$family: transformers"
done
# Gates, and what they multiply, whose 4.7 MB several threads write in slices that end within a piece of 8 rows.
"$python" tests/tools/llama/checkpoint.py llama "$work/wide" hidden_size=72 intermediate_size=16392 num_hidden_layers=1 || exit 1
llama wide --prompt 1,2,3 --new 2 --verify
verified 2
# Rows whose experts are almost equally likely: rounding chooses, and the reference follows.
many=$("$python" -c "print(*((37 * i + 11) % 256 for i in range(150)), sep=',')") || exit 1
llama qwen3_moe --prompt "$many" --new 3 --verify
verified 3
grep -q '^experts: [0-9]* of 304 choices are those of rounding' "$work/err" || fail "almost equal experts: $(cat "$work/err")"
export PTXPACK_EMU_SM=80
for family in qwen3 qwen3_moe; do
    llama $family --prompt 1,2,3 --new 2 --verify
    verified 2
done
export PTXPACK_EMU_SM=75
for family in mistral mixtral; do
    llama $family --prompt 1,2,3 --new 2 --verify
    verified 2
done
"$LLAMA" "$work/qwen3" --prompt 1 >"$work/out" 2>&1 && fail "bf16 runs on sm_75"
grep -q 'bf16.*sm_80' "$work/out" || fail "bf16 on sm_75: $(cat "$work/out")"
unset PTXPACK_EMU_SM

# ---- weights of e4m3 -----------------------------------------------------------------------------------------
# The reference has the rounded weights, too.  Of chunks of more than 32 tokens the products are those of 16 bits, and the numbers are
# the same but for the order of sums.
hundred=$("$python" -c "print(*((37 * i + 11) % 250 for i in range(100)), sep=',')") || exit 1
for wide in llama mistral; do
    "$python" tests/tools/llama/checkpoint.py $wide "$work/$wide-wide" hidden_size=128 intermediate_size=256 || exit 1
    llama $wide-wide --weights e4m3 --prompt "$long" --prompt 7,8 --new 3 --chunk 32 --verify
    verified 6
    cp "$work/out" "$work/one"
    llama $wide-wide --weights e4m3 --prompt "$long" --prompt 7,8 --new 3 --verify
    verified 6
    cmp -s "$work/one" "$work/out" || fail "--chunk 32 draws other tokens: $(diff "$work/one" "$work/out")"
done
llama mistral-wide --weights e4m3 --prompt "$hundred" --new 3 --chunk 40 --verify
verified 3
llama llama-wide --weights e4m3 --prompt 1 --slots 33 --new 2 --verify
verified 2
export PTXPACK_EMU_DEVICES=2
llama llama-wide --weights e4m3 --prompt "$hundred" --gpus 2 --share 50 --new 2 --verify --time
verified 2
grep -q '(100 sharded)' "$work/err" || fail "--weights e4m3 --gpus 2: $(cat "$work/err")"
# Experts, whose k is 48 and no multiple of 128.  With 110 tokens at once each has 66 rows on average, and they become 16 bits.
"$python" tests/tools/llama/checkpoint.py mixtral "$work/mixtral-wide" hidden_size=128 intermediate_size=48 || exit 1
"$python" tests/tools/llama/checkpoint.py qwen3_moe "$work/qwen3_moe-wide" hidden_size=128 moe_intermediate_size=48 || exit 1
llama mixtral-wide --weights e4m3 --prompt "$long" --prompt 7,8 --new 3 --chunk 32 --verify
verified 6
llama mixtral-wide --weights e4m3 --prompt "$hundred,1,2,3,4,5,6,7,8,9,0" --new 2 --verify
verified 2
llama qwen3_moe-wide --weights e4m3 --prompt "$long" --gpus 2 --share 20 --new 2 --verify --time
verified 2
grep -q '(45 sharded)' "$work/err" || fail "experts of e4m3 and --gpus 2: $(cat "$work/err")"
unset PTXPACK_EMU_DEVICES
PTXPACK_EMU_SM=80 "$LLAMA" "$work/llama-wide" --weights e4m3 --prompt 1 >"$work/out" 2>&1 && fail "--weights e4m3 runs on sm_80"
grep -q 'dtype_b e4m3.*needs sm_90' "$work/out" || fail "--weights e4m3 on sm_80: $(cat "$work/out")"
"$LLAMA" "$work/llama" --weights e4m3 --prompt 1 >"$work/out" 2>&1 && fail "--weights e4m3 of 64 columns"
grep -q 'k is 64, no multiple of 128' "$work/out" || fail "--weights e4m3 of 64 columns: $(cat "$work/out")"

# ---- several GPUs --------------------------------------------------------------------------------------------
# The tokens are those of one GPU, whatever pages there are: the first prompt comes again when others have left theirs.
mixed="--prompt $long --prompt 7,8 --prompt 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --prompt $long --slots 2 --page 8 --new 4"
llama mistral $mixed
cp "$work/out" "$work/one"
export PTXPACK_EMU_DEVICES=3
llama mistral $mixed --gpus 2 --share 8 --verify --time
verified 16
cmp -s "$work/one" "$work/out" || fail "--gpus 2 draws other tokens: $(diff "$work/one" "$work/out")"
grep -q '^prefill: 109 tokens (107 sharded)' "$work/err" || fail "--share 8: $(cat "$work/err")"
llama qwen3_moe --prompt 1,2,3,4,5,6,7,8,9 --new 3
cp "$work/out" "$work/one"
export PTXPACK_EMU_DELAY=2
llama qwen3_moe --prompt 1,2,3,4,5,6,7,8,9 --gpus 2 --share 4 --new 3 --verify --time
verified 3
cmp -s "$work/one" "$work/out" || fail "--gpus 2 with experts draws other tokens: $(diff "$work/one" "$work/out")"
unset PTXPACK_EMU_DELAY
grep -q '(9 sharded)' "$work/err" || fail "--share 4: $(cat "$work/err")"
llama llama --prompt "$long" --gpus 3 --share 15 --new 3 --verify --time
verified 3
grep -q '(45 sharded)' "$work/err" || fail "--share 15: $(cat "$work/err")"
llama llama --prompt "$long" --gpus 2 --share 23 --new 1 --time
grep -q '(0 sharded)' "$work/err" || fail "--share 23: $(cat "$work/err")"
# refused_gpus PATTERN ARGUMENT...: status 1 and one line
refused_gpus() {
    pattern=$1
    shift
    "$LLAMA" "$work/llama" --prompt 1,2,3 "$@" >"$work/out" 2>&1
    [ $? = 1 ] && [ "$(wc -l <"$work/out")" = 1 ] && grep -q -- "$pattern" "$work/out" || fail "$*: $(cat "$work/out")"
}
refused_gpus '--gpus 4: the driver sees 3' --gpus 4
export PTXPACK_EMU_FAULT=no-peers
refused_gpus '--gpus 2: GPU 0 cannot read the memory of GPU 1' --gpus 2
unset PTXPACK_EMU_DEVICES PTXPACK_EMU_FAULT

# ---- sequences join and leave ------------------------------------------------------------------------------
# Five sequences, three slots, pages for two long ones: the graph of a step is the same all the time.
five="--prompt $long --prompt 7,8 --prompt 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --prompt 9 --prompt 250,0"
llama mistral $five --slots 3 --pages 8 --chunk 16 --new 9 --verify --time
verified 45
cp "$work/out" "$work/together"
grep -q ' 40 tokens in \(1[4-9]\|2[0-9]\) steps .* [23] at once' "$work/err" || fail "slots and pages: $(cat "$work/err")"
llama mixtral --prompt 7,8 --prompt 1,2,3 --prompt 9 --slots 2 --new 4 --verify
verified 12
for prompt in "$long" 7,8 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 9 250,0; do
    llama mistral --prompt $prompt --new 9 && cat "$work/out" >>"$work/alone"
done
cmp -s "$work/together" "$work/alone" || fail "sequences depend on others: $(diff "$work/together" "$work/alone")"
ran=$((ran + 1))
printf '7 8\n250,0\n' | "$LLAMA" "$work/mistral" --new 9 >"$work/out" 2>"$work/err"
sed -n '2p;5p' "$work/alone" | cmp -s - "$work/out" || fail "prompts from the input: $(cat "$work/out" "$work/err")"
"$LLAMA" "$work/mistral" --prompt "$long" --pages 2 >"$work/out" 2>&1 && fail "too few pages"
grep -q '2 pages are fewer than the 4 of' "$work/out" || fail "too few pages: $(cat "$work/out")"
"$LLAMA" "$work/mistral" --prompt 1,251 >"$work/out" 2>&1 && fail "a token outside of the vocabulary"
grep -q 'token 251 is not one of the 251' "$work/out" || fail "a token outside of the vocabulary: $(cat "$work/out")"
"$LLAMA" "$work/mistral" --prompt "$long" --new 468 >"$work/out" 2>&1 && fail "more tokens than the model has positions"
grep -q '45 tokens and 468 more exceed the 512' "$work/out" || fail "positions: $(cat "$work/out")"
# The third token of this sequence ends it, if it is eos_token_id.
stop=$(sed -n 1p "$work/alone" | cut -d ' ' -f 3)
sed "s/\"eos_token_id\": null/\"eos_token_id\": [$stop, 250]/" "$work/mistral/config.json" >"$work/config" && mv "$work/config" "$work/mistral/config.json"
llama mistral --prompt "$long" --prompt 7,8 --new 9
[ "$(sed -n 1p "$work/out" | wc -w) $(sed -n 2p "$work/out" | wc -w)" = "3 9" ] || fail "eos_token_id: $(cat "$work/out")"
llama mistral --prompt "$long" --new 9 --no-stop
sed -n 1p "$work/alone" | cmp -s - "$work/out" || fail "--no-stop: $(cat "$work/out")"

# ---- sampling ------------------------------------------------------------------------------------------------
llama qwen2 --prompt 1,2 --prompt 3,4,5 --new 12 --temperature 0.9 --top-p 0.8 --seed 5 --verify
verified 24
cp "$work/out" "$work/drawn"
llama qwen2 --prompt 1,2 --prompt 3,4,5 --new 12 --temperature 0.9 --top-p 0.8 --seed 5 --slots 1
cmp -s "$work/drawn" "$work/out" || fail "the same seed draws others: $(cat "$work/drawn" "$work/out")"
llama qwen2 --prompt 1,2 --prompt 3,4,5 --new 12 --temperature 0.9 --top-p 0.8 --seed 6
cmp -s "$work/drawn" "$work/out" && fail "another seed draws the same"
llama qwen2 --prompt 1,2 --new 12
cp "$work/out" "$work/drawn"
for few in '--top-p 0.000001' '--top-k 1'; do
    llama qwen2 --prompt 1,2 --new 12 --temperature 3 --seed 7 $few
    cmp -s "$work/drawn" "$work/out" || fail "$few is not greedy: $(cat "$work/drawn" "$work/out")"
done
llama llama --prompt 1,2 --prompt 3,4,5 --new 12 --temperature 2.5 --verify
verified 24
llama qwen3 --prompt 1,2 --prompt 3,4,5 --new 4 --temperature 1 --verify # logits that are far apart
verified 8

# ---- text in and out ---------------------------------------------------------------------------------------------
"$python" - "$work/qwen2/tokenizer.json" 2>/dev/null <<'END' && {
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(1100)}, unk_token="w0"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.save(sys.argv[1])
END
    ran=$((ran + 1))
    sed 's/ / w/g; s/^/w/' "$work/drawn" >"$work/words"
    "$python" tools/examples/llama/generate.py "$work/qwen2" 'w1 w2' --new 12 >"$work/out" 2>&1 && cmp -s "$work/words" "$work/out" ||
        fail "generate.py: $(cat "$work/words" "$work/out")"
} || skip "$python has no tokenizers: generate.py did not run"

# ---- a broken kernel is detected -----------------------------------------------------------------------------
# broken FAMILY PATTERN FILE SCRIPT ARGUMENT...: FILE of the pack is edited by a sed script; the message matches PATTERN
broken() {
    family=$1 pattern=$2 file=$3 script=$4
    shift 4
    ran=$((ran + 1))
    rm -rf "$work/ptx" && cp -r ptx "$work/ptx" && sed "$script" "ptx/$file" >"$work/ptx/$file"
    cmp -s "ptx/$file" "$work/ptx/$file" && fail "$file: $script changes nothing"
    PTXPACK_PTX_DIR="$work/ptx" "$LLAMA" "$work/$family" --prompt 1,2,3 --new 4 --verify "$@" >"$work/out" 2>&1 &&
        fail "$file, broken by $script: nobody notices"
    grep -q "$pattern" "$work/out" || fail "$file, broken by $script: $(head -n 3 "$work/out")"
}
broken qwen2 'differ from double' gemm/rows_norm.ptx 's/rsqrt.approx.f32/sqrt.approx.f32/'
broken qwen2 'differ from double' norm/norm.ptx 's/mul.f32            %high, %high, %w_high;/mul.f32 %high, %high, %w_low;/'
broken llama-wide 'differ from double' quantise/quantise.ptx 's/sub.s32            %y, %y, 8;/sub.s32 %y, %y, 10;/' --weights e4m3
broken llama-wide 'differ from double' quantise/dequantise.ptx 's/mul.f32            \\x, \\x, %scale;//' --weights e4m3 --slots 33
broken mixtral-wide 'differ from double\|was left out' gemm/rows_groups_e4m3.ptx 's/mul.f32            %v\\\[2\*i+1\], %v.*//' --weights e4m3
broken mixtral 'differ from double\|was left out, whose logit' experts/route.ptx 's/0f3FB8AA3B;/0f3F800000;/'
broken mixtral 'token 0, layer 1: expert . was left out, whose logit' experts/route.ptx 's/setp.nan.f32       %q, %z, %z;/setp.gt.f32 %q, %z, 0f3F000000;/'
broken mixtral 'not 3 different ones' experts/route.ptx 's/selp.b32           %key\\\[i\], 0, %key\\\[i\], %p;/selp.b32 %key\\[i], 1, 1, %p;/'
broken qwen2 'its logits give' sampling/sampling.ptx 's/%k1, %k1, 0xBB67AE85/%k1, %k1, 0xBB67AE84/' --temperature 2

# ---- what is malformed is refused ------------------------------------------------------------------------------
sanitized="-fsanitize=address,undefined -fno-sanitize-recover=all"
make -C "$work/program" -B CFLAGS="-O1 -g $sanitized" PTXPACK_CFLAGS="-I$build/include" \
    PTXPACK_LIBS="$build/libptxpack.so -Wl,-rpath,$work/lib" >"$work/log" 2>&1 && "$LLAMA" "$work" 2>&1 | grep -q config.json || {
    skip "the compiler has no sanitizers: malformed files are read without"
    make -C "$work/program" -B PTXPACK_CFLAGS="-I$build/include" PTXPACK_LIBS="$build/libptxpack.so -Wl,-rpath,$work/lib" >"$work/log" 2>&1
}
for option in "--new 1.5" "--new 0" "--slots x" "--top-p 2" "--seed" "--weights q4" "--gpus 0" "--gpus 1.5" "--share 1"; do
    "$LLAMA" "$work/llama" --prompt 1 $option >"$work/out" 2>&1
    [ $? = 2 ] && head -n 1 "$work/out" | grep -q -- "^llama: ${option%% *} " || fail "$option: $(head -n 1 "$work/out")"
done
ASAN_OPTIONS=detect_leaks=0 "$python" tests/tools/llama/malformed.py "$LLAMA" "$work/llama" "$work/malformed" || fail "malformed files"

echo "$ran runs, $failed failures"
[ $failed -eq 0 ]
