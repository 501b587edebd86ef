/* main.c - runs a Llama, Mistral, Mixtral or Qwen of a Hugging Face folder: token ids in, token ids and logits out.
 *
 *   make PKG_CONFIG_PATH=PREFIX/lib/pkgconfig LDFLAGS=-Wl,-rpath,PREFIX/lib
 *   ./llama FOLDER --prompt 1,15043,3186 --new 20
 *
 * Without a GPU: PTXPACK_DEVICE=emu ./llama ..., which is for tiny models. */
#include "llama.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: llama FOLDER [OPTION...]\n"
    "  --prompt IDS       token ids between commas; several times: several sequences.  Without it each line of the\n"
    "                     input is one, with commas or blanks\n"
    "  --new N            tokens to draw for each sequence (16); fewer if one is eos_token_id, unless --no-stop\n"
    "  --temperature T    0: the most likely token (0)\n"
    "  --top-k K          draw from the K most likely tokens (all)\n"
    "  --top-p P          draw from the most likely tokens that are P of all (1)\n"
    "  --seed S           of the first sequence; the next ones have S + 1, ... (0)\n"
    "  --slots N          sequences at once (the number of prompts, at most 8)\n"
    "  --chunk N          tokens of a prompt at once (256)\n"
    "  --page N           tokens of a page of the cache (16)\n"
    "  --pages N          pages of the cache (what the slots need)\n"
    "  --gpus N           GPUs for long prompts, each with all weights; tokens are drawn by the first one (1)\n"
    "  --share N          a prompt is long if each GPU gets so many of its tokens (1024)\n"
    "  --weights e4m3     round the matrices of layers, also of experts, to e4m3, a scale for each row: half of the memory,\n"
    "                     decoding is faster.  For Hopper; with more than 32 rows at once they become 16 bits for each\n"
    "                     product, all experts with more than 64 rows each on average\n"
    "  --logits FILE      write the logits of each token that was drawn: f32, .npy, [tokens][vocabulary]\n"
    "  --verify           compare with the same model on the CPU in double precision: for small models\n"
    "  --check            read config.json and the tensors' headers, and say what the model is; no device\n"
    "  --time             write times to the error stream\n";

_Noreturn void die(const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    fputs("llama: ", stderr);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    exit(1);
}

void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count != 0 ? count : 1, bytes != 0 ? bytes : 1);
    NEED(memory != NULL, "no memory for %zu times %zu bytes", count, bytes);
    return memory;
}

void *enlarge(void *memory, size_t count, size_t bytes)
{
    memory = realloc(memory, count * bytes);
    NEED(memory != NULL, "no memory for %zu times %zu bytes", count, bytes);
    return memory;
}

typedef struct options {
    const char          *folder, *logits;
    request             *requests;
    int                  count, most, seed;
    limits               limits;
    ptxpack_sampling_row draw;
    bool                 no_stop, verify, check, time, quantised, sharded;
} options;

static _Noreturn void misused(const char *what, const char *value)
{
    fprintf(stderr, "llama: %s %s\n%s", what, value, usage);
    exit(2);
}

static double number(const char *name, const char *text, double least, double most, bool whole)
{
    char  *end = NULL;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= least && value <= most) || (whole && value != floor(value)))
        misused(name, *text != '\0' ? text : "has no value");
    return value;
}

/* A prompt: whole numbers between commas or blanks. */
static void add_request(options *o, const char *ids)
{
    static const char between[] = ", \t\r\n";
    request           r = {0};
    char             *end;
    for (const char *at = ids; *(at += strspn(at, between)) != '\0'; at = end) {
        long id = strtol(at, &end, 10);
        NEED(end != at && id >= 0 && id <= INT32_MAX && (*end == '\0' || strchr(between, *end) != NULL),
             "'%.32s' does not begin with a token id", at);
        r.tokens = (int32_t *)enlarge(r.tokens, (size_t)r.prompt + 1, sizeof *r.tokens);
        r.tokens[r.prompt++] = (int32_t)id;
    }
    NEED(r.prompt > 0, "a prompt has no token");
    r.count = r.prompt;
    o->requests = (request *)enlarge(o->requests, (size_t)o->count + 1, sizeof r);
    o->requests[o->count++] = r;
}

static void read_requests(options *o)
{
    char  *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0)
        add_request(o, line);
    free(line);
    NEED(o->count > 0, "there is no prompt");
}

/* Reads an option but --prompt; returns whether it has used the value. */
static bool read_option(options *o, const char *word, const char *value)
{
    enum { SWITCH, COUNT, REAL };
    static const struct {
        const char *word;
        int         kind;
        size_t      at;
        double      least, most;
    } table[] = {{"--new", COUNT, offsetof(options, most), 1, 1 << 24},
                 {"--slots", COUNT, offsetof(options, limits.slots), 1, 4096},
                 {"--chunk", COUNT, offsetof(options, limits.chunk), 1, 1 << 24},
                 {"--page", COUNT, offsetof(options, limits.page_rows), 1, 1024},
                 {"--pages", COUNT, offsetof(options, limits.pages), 1, 1 << 24},
                 {"--gpus", COUNT, offsetof(options, limits.gpus), 1, MOST_GPUS},
                 {"--share", COUNT, offsetof(options, limits.share), 2, 1 << 24},
                 {"--top-k", COUNT, offsetof(options, draw.top_k), 1, 1 << 24},
                 {"--seed", COUNT, offsetof(options, seed), 0, INT32_MAX},
                 {"--top-p", REAL, offsetof(options, draw.top_p), 1e-6, 1},
                 {"--temperature", REAL, offsetof(options, draw.temperature), 0, 1e6},
                 {"--no-stop", SWITCH, offsetof(options, no_stop), 0, 0},
                 {"--verify", SWITCH, offsetof(options, verify), 0, 0},
                 {"--check", SWITCH, offsetof(options, check), 0, 0},
                 {"--time", SWITCH, offsetof(options, time), 0, 0}};
    size_t i = 0;
    while (i < sizeof table / sizeof *table && strcmp(word, table[i].word) != 0)
        i++;
    if (i == sizeof table / sizeof *table)
        misused("there is no option", word);
    void *at = (char *)o + table[i].at;
    if (table[i].kind == COUNT)
        *(int *)at = (int)number(word, value, table[i].least, table[i].most, true);
    else if (table[i].kind == REAL)
        *(float *)at = (float)number(word, value, table[i].least, table[i].most, false);
    else
        *(bool *)at = true;
    return table[i].kind != SWITCH;
}

static void read_options(int argc, char **argv, options *o)
{
    *o = (options){.most = 16, .limits = {.chunk = 256, .page_rows = 16, .gpus = 1, .share = 1024}, .draw = {.top_p = 1}};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(word, "--prompt") == 0)
            add_request(o, value), i++;
        else if (strcmp(word, "--logits") == 0 && *value != '\0')
            o->logits = value, i++;
        else if (strcmp(word, "--weights") == 0 && strcmp(value, "e4m3") != 0)
            misused(word, "takes e4m3");
        else if (strcmp(word, "--weights") == 0)
            o->quantised = true, i++;
        else if (strncmp(word, "--", 2) != 0 && o->folder == NULL)
            o->folder = word;
        else
            i += read_option(o, word, value);
    }
    if (o->folder == NULL)
        misused("the folder", "is missing");
}

/* What the requests need, within what the options say. */
static void settle(options *o, const config *c)
{
    limits *l = &o->limits;
    l->choices = o->verify && c->experts != 0;
    for (request *r = o->requests; r < o->requests + o->count; r++) {
        for (int i = 0; i < r->prompt; i++)
            NEED(r->tokens[i] < c->vocab, "token %d is not one of the %d of the vocabulary", r->tokens[i], c->vocab);
        NEED(r->prompt <= c->positions - o->most, "a prompt of %d tokens and %d more exceed the %d max_position_embeddings", r->prompt,
             o->most, c->positions);
        int all = r->prompt + o->most;
        r->most = o->most;
        r->seed = (uint64_t)o->seed + (uint64_t)(r - o->requests);
        r->tokens = (int32_t *)enlarge(r->tokens, (size_t)all, sizeof *r->tokens);
        if (l->choices)
            r->experts = (int32_t *)allocate((size_t)all * (size_t)(c->layers * c->top_k), sizeof *r->experts);
        if (o->verify || o->logits != NULL)
            r->logits = (uint16_t *)allocate((size_t)r->most * (size_t)c->vocab, sizeof *r->logits);
        l->length = all - 1 > l->length ? all - 1 : l->length;
        o->sharded |= shards_want(l, r->prompt);
    }
    int width = (l->length + l->page_rows - 1) / l->page_rows;
    l->slots = l->slots != 0 ? l->slots : o->count < 8 ? o->count : 8;
    l->pages = l->pages != 0 ? l->pages : l->slots * width;
    l->chunk = l->chunk < l->length ? l->chunk : l->length;
    NEED(l->pages >= width, "%d pages are fewer than the %d of the longest sequence", l->pages, width);
}

static void write_logits(const options *o, const model *m)
{
    FILE  *file = fopen(o->logits, "wb");
    char   header[128];
    size_t rows = 0, vocab = (size_t)m->config.vocab;
    float *row = (float *)allocate(vocab, sizeof *row);
    for (const request *r = o->requests; r < o->requests + o->count; r++)
        rows += (size_t)(r->count - r->prompt);
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, vocab);
    bool right = file != NULL && fprintf(file, "\x93NUMPY%c%cv%c%-117s\n", 1, 0, 0, header) == 128;
    for (const request *r = o->requests; r < o->requests + o->count; r++)
        for (size_t i = 0; i < (size_t)(r->count - r->prompt) && right; i++) {
            for (size_t j = 0; j < vocab; j++)
                row[j] = ptxpack_to_float(m->dtype, r->logits[i * vocab + j]);
            right = fwrite(row, sizeof *row, vocab, file) == vocab;
        }
    free(row);
    right &= file != NULL && fclose(file) == 0;
    NEED(right, "%s: %s", o->logits, strerror(errno));
}

/* The largest difference of a logit, as a part of the largest logit of its row.  The device rounds to 16 bits after each
 * product, norm and attention, of which a layer has about 8: the errors of L layers add up like the root of their number.
 * Where experts are almost equally likely, these roundings choose.  The reference follows the device, and the difference of two logits
 * of a router, of one that was taken and of one that was left out, is held to what one logit of the model is held to. */
static void verify(const options *o, const model *m, const weights *w)
{
    int                   vocab = m->config.vocab, rows = 0, others = 0, all_choices = 0;
    ptxpack_sampling_row  draw = o->draw;
    ptxpack_sampling_desc sampling = {.size = sizeof sampling, .dtype = m->dtype, .rows = 1, .vocabulary = vocab};
    double                worst = 0, allowed = 4 * (m->dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8) * sqrt(8.0 * m->config.layers);
    for (const request *r = o->requests; r < o->requests + o->count; r++) {
        double *all = (double *)allocate((size_t)(r->count - r->prompt) * (size_t)vocab, sizeof *all), *want = all;
        choices found;
        reference_logits(&m->config, w, r->tokens, r->count - 1, r->prompt - 1, r->experts, all, &found);
        NEED(!found.malformed, "sequence %d: token %d, layer %d: its experts are not %d different ones", (int)(r - o->requests),
             found.position, found.layer, m->config.top_k);
        NEED(found.gap <= allowed, "sequence %d: token %d, layer %d: expert %d was left out, whose logit is larger than that of %d by %.1e "
             "of the largest one; %.1e is allowed", (int)(r - o->requests), found.position, found.layer, found.other, found.least,
             found.gap, allowed);
        others += found.others;
        all_choices += (r->count - 1) * m->config.layers;
        for (int i = r->prompt; i < r->count; i++, rows++, want += vocab) {
            const uint16_t *got = r->logits + (size_t)(i - r->prompt) * (size_t)vocab;
            double          most = 0, error = 0;
            int32_t         token = -1;
            draw.seed = r->seed;
            draw.counter = (uint64_t)i;
            try_pack(&m->device, ptxpack_sampling_reference(&sampling, got, &draw, &token));
            NEED(token == r->tokens[i], "sequence %d: token %d is %d, its logits give %d", (int)(r - o->requests), i, r->tokens[i],
                 token);
            for (int j = 0; j < vocab; j++) {
                double difference = fabs((double)ptxpack_to_float(m->dtype, got[j]) - want[j]);
                most = fmax(most, fabs(want[j]));
                error = fmax(error, isnan(difference) ? INFINITY : difference);
            }
            worst = fmax(worst, error / most);
        }
        free(all);
    }
    NEED(worst <= allowed, "the logits differ from double precision by %.1e of the largest one; %.1e is allowed", worst, allowed);
    fprintf(stderr, "verified: %d rows of logits, largest error %.1e of the largest one (allowed %.1e)\n", rows, worst, allowed);
    if (others != 0)
        fprintf(stderr, "experts: %d of %d choices are those of rounding, between experts almost equally likely\n", others, all_choices);
}

static void run(options *o, const config *c, weights *w)
{
    model  m;
    timing t;
    if (o->count == 0)
        read_requests(o);
    settle(o, c);
    w->matrices = o->quantised ? PTXPACK_E4M3 : (ptxpack_dtype)0;
    model_load(&m, c, &o->limits, w, 0);
    m.shards = o->sharded ? shards_open(&m, w) : NULL;
    serve(&m, o->requests, o->count, o->draw, !o->no_stop, &t);
    for (int i = 0; i < o->count; i++)
        for (int j = o->requests[i].prompt; j < o->requests[i].count; j++)
            printf("%d%c", o->requests[i].tokens[j], j + 1 < o->requests[i].count ? ' ' : '\n');
    NEED(fflush(stdout) == 0, "the output: %s", strerror(errno));
    if (o->logits != NULL)
        write_logits(o, &m);
    if (o->time)
        fprintf(stderr, "prefill: %d tokens (%d sharded) in %.1f ms; decode: %d tokens in %d steps of %.3f ms, %d at once\n",
                t.prefill_tokens, t.sharded_tokens, t.prefill_ms, t.decode_tokens, t.decode_steps, t.decode_steps != 0 ? t.decode_ms / t.decode_steps : 0, t.most_at_once);
    if (o->verify)
        verify(o, &m, w);
    shards_close(m.shards);
    model_free(&m);
}

int main(int argc, char **argv)
{
    options o;
    config  c;
    weights w;
    read_options(argc, argv, &o);
    config_read(o.folder, &c);
    checkpoint *files = checkpoint_open(o.folder);
    weights_take(&c, files, &w);
    if (o.check)
        printf("%s of %s: %d layers of %d, %d heads of %d on %d, %d tokens\n", c.family, ptxpack_dtype_name(w.dtype), c.layers,
               c.hidden, c.heads, c.head_dim, c.heads_kv, c.vocab);
    else
        run(&o, &c, &w);
    for (int i = 0; i < o.count; i++) {
        free(o.requests[i].tokens);
        free(o.requests[i].logits);
        free(o.requests[i].experts);
    }
    free(o.requests);
    free(w.layers);
    free(w.experts);
    checkpoint_close(files);
    return 0;
}
