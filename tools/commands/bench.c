/* bench.c - ptxpack bench: chooses the benchmark, and reads the options that all of them share. */
#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "tools/problem/attention_mask.h"
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

static bool parse_settings(bench_settings *s, const char *dims, const char *lengths, const char *dtype)
{
    if (!parse_list("head-dim", dims, &s->head_dims) || !parse_list("seqlen", lengths, &s->lengths))
        return false;
    s->dtype = ptxpack_dtype_of(dtype);
    if (s->dtype == 0) {
        command_fail("bench", "--dtype: \"%s\" is not f16, bf16 or e4m3", dtype);
        return false;
    }
    if (s->rounds < 1 || s->rounds > 1000) {
        command_fail("bench", "--rounds: %lld is not between 1 and 1000", (long long)s->rounds);
        return false;
    }
    return true;
}

int cmd_bench(int argc, char **argv)
{
    static const struct {
        const char *word;
        int (*run)(const bench_settings *settings);
    } benchmarks[] = {
        {"attention", bench_attention}, {"gemm", bench_gemm},     {"vector-add", bench_vector_add},
        {"start-up", bench_start_up},   {"layout", bench_layout}, {"emu", bench_emu},
    };
    bench_settings       s = {.rounds = 9, .seed = 1};
    const char          *dims = "64,128,256", *lengths = "512,1024,2048,4096,8192,16384", *dtype = "bf16";
    const char          *sizes = NULL;
    attention_mask_words mask = {NULL, NULL, NULL};
    double               softcap = 0;
    const option         rows[] = {
                {"head-dim", OPTION_TEXT, &dims, "N,...  (attention; default 64,128,256)"},
                {"seqlen", OPTION_TEXT, &lengths, "N,...  (attention; default 512 to 16384)"},
                {"causal", OPTION_TEXT, &mask.causal, "yes|no|both  (attention; default both)"},
                {"window", OPTION_TEXT, &mask.window, WINDOW_OPTION_HELP " (attention; not causal)"},
                {"align", OPTION_TEXT, &mask.align, ALIGN_OPTION_HELP},
                {"softcap", OPTION_REAL, &softcap, SOFTCAP_OPTION_HELP " (attention)"},
                {"size", OPTION_TEXT, &sizes, "N,...  m = n = k (gemm; default 1024 to 8192)"},
                {"kernel", OPTION_TEXT, &s.kernel, "ID|all  (gemm; default: the chosen one)"},
                {"dtype", OPTION_TEXT, &dtype, "f16|bf16|e4m3  (default bf16; e4m3: attention)"},
                {"rounds", OPTION_INT, &s.rounds, "N  the median of so many is shown (default 9)"},
                {"seed", OPTION_INT, &s.seed, "N  of the input and the order (default 1)"},
                {"json", OPTION_FLAG, &s.json, "print JSON"},
                {NULL, OPTION_FLAG, NULL, NULL},
    };
    int words = 0;
    int status = command_options(argc, argv,
                                 "ptxpack bench attention|gemm|vector-add|start-up|layout|emu [options]", rows,
                                 &words);
    if (status >= 0)
        return status;
    if (words != 1) {
        command_fail("bench", "name a benchmark: attention, gemm, vector-add, start-up, layout or emu");
        return COMMAND_USAGE;
    }
    if ((sizes != NULL && !parse_list("size", sizes, &s.sizes)) || !parse_settings(&s, dims, lengths, dtype) ||
        !parse_mask(&s, &mask, softcap))
        return COMMAND_USAGE;
    for (size_t i = 0; i < sizeof benchmarks / sizeof benchmarks[0]; i++)
        if (strcmp(argv[1], benchmarks[i].word) == 0)
            return benchmarks[i].run(&s);
    command_fail("bench", "\"%s\" is not attention, gemm, vector-add, start-up, layout or emu", argv[1]);
    return COMMAND_USAGE;
}
