/* bench.c - ptxpack bench: chooses the benchmark, and reads the options that all of them share. */
#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "tools/problem/attention_mask.h"
#include "tools/problem/gemm_problem.h"
#include "tools/bench/bench.h"
#include "tools/command.h"

/* Reads "64,128" as numbers; returns false after a line on stderr. */
static bool parse_list(const char *name, const char *text, bench_list *list)
{
    list->count = 0;
    while (*text != '\0') {
        char     *end;
        long long value = strtoll(text, &end, 10);
        if (end == text || isspace((unsigned char)*text) || (*end != '\0' && *end != ',') || value < 1 ||
            value > INT32_MAX) {
            command_fail("bench", "--%s: \"%s\" is not a list of whole numbers", name, text);
            return false;
        }
        if (list->count == BENCH_LIST) {
            command_fail("bench", "--%s: there are more than %d numbers", name, (int)BENCH_LIST);
            return false;
        }
        list->value[list->count++] = (int32_t)value;
        text = *end == ',' ? end + 1 : end;
    }
    if (list->count == 0)
        command_fail("bench", "--%s: the list is empty", name);
    return list->count > 0;
}

/* Reads which masks to time: a window, or causal, not causal, or both. */
static bool parse_mask(bench_settings *s, const attention_mask_words *mask, double softcap)
{
    const char *causal = mask->causal != NULL ? mask->causal : "both";
    if (softcap != 0 && !(softcap >= FLT_MIN && softcap <= FLT_MAX)) { /* 0: off */
        command_fail("bench", "--softcap: %g is neither 0 (off) nor a positive normal float", softcap);
        return false;
    }
    s->masked.softcap = (float)softcap;
    if (mask->window != NULL || mask->align != NULL)
        return attention_mask_parse("bench", mask, &s->masked);
    s->full = strcmp(causal, "yes") != 0;
    s->causal = strcmp(causal, "no") != 0;
    if (strcmp(causal, "both") != 0 && s->full == s->causal) {
        command_fail("bench", "--causal: \"%s\" is not yes, no or both", causal);
        return false;
    }
    return true;
}

/* The benchmarks; head_dims, lengths: the defaults of --head-dim and --seqlen. */
#define BENCHMARKS "attention, decode, serving, parallel, gemm, model, vector-add, start-up, layout or emu"
#define SYNOPSIS \
    "ptxpack bench attention|decode|serving|parallel|gemm|model|vector-add|start-up|layout|emu [options]"
typedef struct benchmark {
    const char *word;
    int (*run)(const bench_settings *settings);
    const char *head_dims, *lengths;
    bool        e4m3; /* --dtype may be that */
} benchmark;
#define LENGTHS "512,1024,2048,4096,8192,16384"
static const benchmark benchmarks[] = {
    {"attention", bench_attention, "64,128,256", LENGTHS, true},
    {"decode", bench_decode, "128", LENGTHS, false},
    {"serving", bench_serving, "128", LENGTHS, false},
    {"parallel", bench_parallel, "128", "8192,16384,32768,65536,131072", false},
    {"gemm", bench_gemm, "128", LENGTHS, true},
    {"model", bench_model, "128", "2048", false},
    {"vector-add", bench_vector_add, "128", LENGTHS, true},
    {"start-up", bench_start_up, "128", LENGTHS, true},
    {"layout", bench_layout, "128", LENGTHS, true},
    {"emu", bench_emu, "128", LENGTHS, true},
};

/* NULL after a line on stderr. */
static const benchmark *find_benchmark(const char *word)
{
    for (size_t i = 0; i < sizeof benchmarks / sizeof benchmarks[0]; i++)
        if (strcmp(word, benchmarks[i].word) == 0)
            return &benchmarks[i];
    command_fail("bench", "\"%s\" is not " BENCHMARKS, word);
    return NULL;
}

/* What the options say as text. */
typedef struct bench_texts {
    const char *dims, *lengths, *dtype, *dtype_ab, *scales, *weights, *kv_dtype, *sizes, *batches, *rows,
        *heads, *keys; /* NULL: not given */
    attention_mask_words mask;
    double               softcap;
} bench_texts;

/* A and B of a product; the weights of a model. */
static bool parse_operands(bench_settings *s, const bench_texts *t, const benchmark *chosen)
{
    s->weights = t->weights != NULL ? ptxpack_dtype_of(t->weights) : (ptxpack_dtype)0;
    if (t->weights != NULL && (s->weights != PTXPACK_E4M3 || chosen->run != bench_model)) {
        command_fail("bench", "--weights: \"%s\" is not e4m3 of model", t->weights);
        return false;
    }
    s->dtype_ab = t->dtype_ab != NULL ? ptxpack_dtype_of(t->dtype_ab) : (ptxpack_dtype)0;
    if (t->dtype_ab != NULL && (s->dtype_ab != PTXPACK_E4M3 || chosen->run != bench_gemm)) {
        command_fail("bench", "--dtype-ab: \"%s\" is not e4m3 of gemm", t->dtype_ab);
        return false;
    }
    if (t->scales != NULL && (s->dtype_ab == 0 || !gemm_scales_of(t->scales, &s->scales))) {
        command_fail("bench", "--scales: \"%s\" is not tensor, lines or blocks of --dtype-ab e4m3", t->scales);
        return false;
    }
    return true;
}

static bool parse_settings(bench_settings *s, const bench_texts *t, const benchmark *chosen)
{
    if (!parse_list("head-dim", t->dims != NULL ? t->dims : chosen->head_dims, &s->head_dims) ||
        !parse_list("seqlen", t->lengths != NULL ? t->lengths : chosen->lengths, &s->lengths) ||
        !parse_list("batch", t->batches, &s->batches) || !parse_list("heads", t->heads, &s->heads) ||
        !parse_list("keys", t->keys, &s->keys) ||
        (t->sizes != NULL && !parse_list("size", t->sizes, &s->sizes)) ||
        (t->rows != NULL && !parse_list("rows", t->rows, &s->table_rows)))
        return false;
    s->lengths_given = t->lengths != NULL;
    s->dtype = ptxpack_dtype_of(t->dtype);
    if (ptxpack_dtype_bytes(s->dtype) == 0 || s->dtype == PTXPACK_INT8) {
        command_fail("bench", "--dtype: \"%s\" is not f16, bf16 or e4m3", t->dtype);
        return false;
    }
    if (s->dtype == PTXPACK_E4M3 && !chosen->e4m3) {
        command_fail("bench", "--dtype: %s is f16 or bf16", chosen->word);
        return false;
    }
    if (t->kv_dtype != NULL) {
        s->kv_dtype = ptxpack_dtype_of(t->kv_dtype);
        if (s->kv_dtype < PTXPACK_E4M3 || s->kv_dtype > PTXPACK_Q8_0 || chosen->run != bench_decode) {
            command_fail("bench", "--kv-dtype: \"%s\" is not e4m3, int8 or q8_0 of decode", t->kv_dtype);
            return false;
        }
    }
    if (!parse_operands(s, t, chosen))
        return false;
    if (s->rounds < 1 || s->rounds > 1000) {
        command_fail("bench", "--rounds: %lld is not between 1 and 1000", (long long)s->rounds);
        return false;
    }
    if (s->queries < 1 || s->queries > 1024) {
        command_fail("bench", "--queries: %lld is not between 1 and 1024", (long long)s->queries);
        return false;
    }
    return parse_mask(s, &t->mask, t->softcap);
}

int cmd_bench(int argc, char **argv)
{
    bench_settings s = {.rounds = 9, .seed = 1, .queries = 1, .model = "llama3-8b"};
    bench_texts    t = {.dtype = "bf16", .batches = "1,32", .heads = "32,8", .keys = "65536,262144,1048576"};
    const option   rows[] = {
          {"head-dim", OPTION_TEXT, &t.dims,
           "N,...  (attention, default 64,128,256; decode, serving, parallel, default 128)"},
          {"seqlen", OPTION_TEXT, &t.lengths,
           "N,...  (attention, default 512 to 16384; parallel, default 8192 to 131072; keys of model, default "
             "2048)"},
          {"causal", OPTION_TEXT, &t.mask.causal, "yes|no|both  (attention, parallel; default both)"},
          {"window", OPTION_TEXT, &t.mask.window, WINDOW_OPTION_HELP " (attention; not causal)"},
          {"align", OPTION_TEXT, &t.mask.align, ALIGN_OPTION_HELP},
          {"softcap", OPTION_REAL, &t.softcap, SOFTCAP_OPTION_HELP " (attention)"},
          {"rows", OPTION_TEXT, &t.rows, "N,...  of the table, from 1 (decode; default all)"},
          {"queries", OPTION_INT, &s.queries, "N  query rows of a sequence, causal (decode; default 1)"},
          {"part", OPTION_TEXT, &s.part,
           "decode|mixed|packed|chunks|append|merge|loop,...  (serving; default all)"},
          {"devices", OPTION_INT, &s.devices,
           "N  ranks, which use all devices in turn (parallel; default: 0, as many as devices)"},
          {"heads", OPTION_TEXT, &t.heads, "Q,KV  query heads and key heads (parallel; default 32,8)"},
          {"keys", OPTION_TEXT, &t.keys, "N,...  of decoding (parallel; default 65536,262144,1048576)"},
          {"link", OPTION_REAL, &s.link, "X  GB/s that a rank receives, for the model (parallel; default 370)"},
          {"size", OPTION_TEXT, &t.sizes,
           "N,...  m = n = k (gemm; default 1024 to 8192); tokens of a prompt (model; default 8192)"},
          {"model", OPTION_TEXT, &s.model,
           "llama3-8b|llama3.2-1b|mistral-7b|qwen3-8b|mixtral-8x7b|qwen3-30b-a3b  (model; default llama3-8b)"},
          {"batch", OPTION_TEXT, &t.batches, "N,...  sequences that decode (model; default 1,32)"},
          {"weights", OPTION_TEXT, &t.weights, "e4m3  of layers, for Hopper (model; default: as dtype)"},
          {"kernel", OPTION_TEXT, &s.kernel, "ID|all  (gemm; default: the chosen one)"},
          {"dtype-ab", OPTION_TEXT, &t.dtype_ab, "e4m3  of A and B (gemm; default: as dtype)"},
          {"scales", OPTION_TEXT, &t.scales, "tensor|lines|blocks  of e4m3 (gemm; default tensor)"},
          {"dtype", OPTION_TEXT, &t.dtype, "f16|bf16|e4m3  (default bf16; e4m3: attention)"},
          {"kv-dtype", OPTION_TEXT, &t.kv_dtype, "e4m3|int8|q8_0  of k and v (decode; default: as dtype)"},
          {"rounds", OPTION_INT, &s.rounds, "N  the median of so many is shown (default 9)"},
          {"seed", OPTION_INT, &s.seed, "N  of the input and the order (default 1)"},
          {"json", OPTION_FLAG, &s.json, "print JSON"},
          {NULL, OPTION_FLAG, NULL, NULL},
    };
    int words = 0;
    int status = command_options(argc, argv, SYNOPSIS, rows, &words);
    if (status >= 0)
        return status;
    if (words != 1) {
        command_fail("bench", "name a benchmark: " BENCHMARKS);
        return COMMAND_USAGE;
    }
    const benchmark *chosen = find_benchmark(argv[1]);
    return chosen != NULL && parse_settings(&s, &t, chosen) ? chosen->run(&s) : COMMAND_USAGE;
}
