/* kernel_texts.c - what the GPU gets must not change by accident: the PTX text of every build of every row of
 * kernels.def, and the row that is chosen for 2,400 problems on seven architectures, are compared with
 * tests/golden/kernel_texts.
 *
 *   host-plan-kernel_texts            compare; the rows and architectures that differ are named
 *   host-plan-kernel_texts --update   write the file, after a deliberate change of kernels or choices
 *   host-plan-kernel_texts --builds [TEXT]   print the digest of each build, to compare two states; only of rows
 *                                     whose id contains the text
 *   host-plan-kernel_texts --choices  print each choice, to compare two states
 * Texts are compared without comments, blank lines and the width of blanks.  A digest is SHA-256. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cache/inspect.h"
#include "host/attention/inspect.h"
#include "host/gemm/inspect.h"
#include "host/ptxpack.h"
#include "loader/inspect.h"

static const char        golden[] = "tests/golden/kernel_texts";
static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/* ---- texts ------------------------------------------------------------------------------------------- */
/* Copies one line of PTX without its comment, each run of blanks as one blank, with '\n' unless nothing is
 * left.  Returns where it ends. */
static char *plain_line(const char *line, size_t bytes, char *to)
{
    char *begin = to;
    bool  gap = false;
    for (size_t i = 0; i < bytes && strncmp(line + i, "//", 2) != 0; i++) {
        bool blank = line[i] == ' ' || line[i] == '\t';
        if (!blank && gap && to > begin)
            *to++ = ' ';
        if (!blank)
            *to++ = line[i];
        gap = blank;
    }
    if (to > begin)
        *to++ = '\n';
    return to;
}

static void digest_of(const char *text, size_t bytes, char hex[PTXPACK_SHA256_HEX + 1])
{
    uint8_t digest[PTXPACK_SHA256_BYTES];
    char   *plain = (char *)malloc(2 * bytes + 2), *to = plain;
    if (plain == NULL)
        abort();
    for (size_t size; *text != '\0'; text += size + (text[size] == '\n')) {
        size = strcspn(text, "\n");
        to = plain_line(text, size, to);
    }
    ptxpack_sha256(plain, (size_t)(to - plain), digest);
    ptxpack_sha256_hex(digest, hex);
    free(plain);
}

typedef struct row_texts {
    ptxpack               *handle;
    const ptxpack_variant *row;
    FILE                  *builds; /* each build is printed here, or NULL */
    ptxpack_sha256_state   all;
    int                    count;
} row_texts;

static bool show_build(const ptxpack_instance *build, void *context)
{
    row_texts         *t = (row_texts *)context;
    ptxpack_expansion *expansion = NULL;
    char               hex[PTXPACK_SHA256_HEX + 1];
    size_t             bytes;
    if (ptxpack_kernel_expand(t->handle, t->row, build->symbols, build->symbol_count, &expansion) != PTXPACK_OK)
        return fprintf(stderr, "%s [%s]: %s\n", t->row->id, build->name, ptxpack_detail(t->handle)), false;
    const char *text = ptxpack_expansion_text(expansion, &bytes);
    digest_of(text, bytes, hex);
    ptxpack_expansion_free(expansion);
    ptxpack_sha256_add(&t->all, hex, PTXPACK_SHA256_HEX);
    t->count++;
    if (t->builds != NULL)
        fprintf(t->builds, "%s  %s [%s]\n", hex, t->row->id, build->name);
    return true;
}

/* Writes a line for each row: the digest of all its builds in order, its id, and how many there are. */
static bool write_texts(FILE *rows, FILE *builds, const char *of)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = true, .arch = "sm_90a"};
    size_t          count;
    bool            good = true;
    row_texts       t = {.builds = builds};
    if (ptxpack_open(&options, &t.handle) != PTXPACK_OK)
        return fprintf(stderr, "%s\n", ptxpack_detail(NULL)), false;
    const ptxpack_variant *row = ptxpack_variants(&count);
    for (const ptxpack_variant *end = row + count; row < end && good; row++) {
        uint8_t digest[PTXPACK_SHA256_BYTES];
        char    hex[PTXPACK_SHA256_HEX + 1];
        t.row = row;
        t.count = 0;
        if (strncmp(row->op, "probe", 5) == 0 || strstr(row->id, of) == NULL) /* probes: only tests use them */
            continue;
        ptxpack_sha256_begin(&t.all);
        good = ptxpack_builds(row, show_build, &t);
        ptxpack_sha256_end(&t.all, digest);
        ptxpack_sha256_hex(digest, hex);
        if (rows != NULL)
            fprintf(rows, "%s  %s %d builds\n", hex, row->id, t.count);
    }
    ptxpack_close(t.handle);
    return good;
}

/* ---- choices ----------------------------------------------------------------------------------------- */
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static int32_t pick(const int32_t *list, size_t count) { return list[draw((uint32_t)count)]; }
#define PICK(...) pick((const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static ptxpack_attention_desc draw_attention(void)
{
    static const ptxpack_dtype types[] = {PTXPACK_F16, PTXPACK_BF16, PTXPACK_E4M3};
    ptxpack_attention_desc     d = {.size = sizeof d};
    d.dtype = types[draw(3)];
    d.batch = PICK(1, 2, 3, 8, 32);
    d.seqlen_q = PICK(1, 16, 64, 100, 512, 700, 1024, 2048, 4096, 16384);
    d.seqlen_kv = draw(2) != 0 ? d.seqlen_q : PICK(1, 33, 128, 1000, 4096, 8192, 65536);
    d.heads_kv = PICK(1, 2, 4, 8, 16);
    d.heads_q = d.heads_kv * PICK(1, 2, 4, 8);
    d.head_dim = PICK(8, 16, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 208, 256);
    d.mask = (ptxpack_mask)draw(5);
    if (d.mask >= PTXPACK_MASK_WINDOW_TOP_LEFT) {
        d.window_left = PICK(-1, 0, 127, 1023);
        d.window_right = PICK(-1, 0, 64);
    }
    d.softcap = draw(4) == 0 ? 30 : 0;
    if (draw(8) == 0)
        d.q.row = (int64_t)d.heads_q * d.head_dim * 3;
    if (draw(16) == 0)
        d.k.row = (int64_t)1 << PICK(20, 29, 31);
    return d;
}

static ptxpack_gemm_desc draw_gemm(void)
{
    ptxpack_gemm_desc d = {.size = sizeof d};
    d.dtype = (ptxpack_dtype[]){PTXPACK_F16, PTXPACK_BF16, PTXPACK_BF16,
                                PTXPACK_E4M3}[draw(16) == 0 ? 3 : draw(3)];
    d.m = PICK(1, 7, 16, 64, 100, 128, 512, 1000, 1536, 4096, 8192);
    d.n = PICK(1, 8, 20, 64, 256, 1000, 1536, 4096, 14336);
    d.k = PICK(0, 1, 8, 32, 100, 512, 4096, 8192, 16384);
    d.batch = PICK(0, 1, 2, 5);
    d.order_a = (ptxpack_order)draw(2);
    d.order_b = (ptxpack_order)draw(2);
    d.has_c = draw(2) != 0;
    d.has_bias = draw(2) != 0;
    d.activation = (ptxpack_activation)draw(4);
    if (draw(6) == 0)
        d.stride_a = 16384 + 8 * (int64_t)draw(4);
    if (draw(6) == 0)
        d.batch_b = -1;
    return d;
}

static void show_choice(ptxpack_sha256_state *all, FILE *choices, const char *op, const char *arch, int number,
                        ptxpack_status status, const ptxpack_variant *row)
{
    char line[160];
    int  bytes = snprintf(line, sizeof line, "%s %s %d %s %d\n", op, arch, number,
                         status == PTXPACK_OK ? row->id : "-", (int)status);
    ptxpack_sha256_add(all, line, (size_t)bytes);
    if (choices != NULL)
        fputs(line, choices);
}

/* Writes a line for the architecture: the digest of all choices, and the number of problems. */
static bool write_choices(FILE *rows, FILE *choices, const char *arch)
{
    enum { ATTENTIONS = 1500, GEMMS = 900, NEWEST_ISA = 90 };
    ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = true, .ptxjit = "none"};
    ptxpack        *handle;
    const ptxpack_variant *row = NULL;
    ptxpack_sha256_state   all;
    uint8_t                digest[PTXPACK_SHA256_BYTES];
    char                   hex[PTXPACK_SHA256_HEX + 1];
    if (ptxpack_open_stand_in(&options, arch, 0, &handle) != PTXPACK_OK)
        return fprintf(stderr, "%s\n", ptxpack_detail(NULL)), false;
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    caps.isa = NEWEST_ISA;
    ptxpack_sha256_begin(&all);
    state = 20261123;
    for (int i = 0; i < ATTENTIONS; i++) {
        const ptxpack_attention_desc desc = draw_attention();
        ptxpack_status               status = plan_row_of(&attention_op, handle, &caps, &desc, &row);
        show_choice(&all, choices, "attention", arch, i, status, row);
    }
    for (int i = 0; i < GEMMS; i++) {
        const ptxpack_gemm_desc desc = draw_gemm();
        ptxpack_status          status = plan_row_of(&gemm_op, handle, NULL, &desc, &row);
        show_choice(&all, choices, "gemm", arch, i, status, row);
    }
    ptxpack_close(handle);
    ptxpack_sha256_end(&all, digest);
    ptxpack_sha256_hex(digest, hex);
    if (rows != NULL)
        fprintf(rows, "%s  %s %d problems\n", hex, arch, ATTENTIONS + GEMMS);
    return true;
}

/* ---- comparing --------------------------------------------------------------------------------------- */
static bool write_all(FILE *rows, FILE *choices)
{
    bool good = choices != NULL && rows == NULL ? true : write_texts(rows, NULL, "");
    for (size_t i = 0; i < sizeof archs / sizeof archs[0] && good; i++)
        good = write_choices(rows, choices, archs[i]);
    return good;
}

static int compare(const char *now)
{
    char  line[256];
    int   differ = 0, same = 0;
    FILE *file = fopen(golden, "r");
    if (file == NULL)
        return printf("FAIL  %s cannot be read\n", golden), 1;
    while (fgets(line, sizeof line, file) != NULL)
        if (strstr(now, line) != NULL)
            same++;
        else
            differ++, printf("FAIL  not as %s has it: %s", golden, line + PTXPACK_SHA256_HEX + 2);
    fclose(file);
    for (const char *at = now; (at = strchr(at, '\n')) != NULL; at++)
        same--;
    if (same != 0 && differ == 0)
        differ++, printf("FAIL  there are rows that %s does not have\n", golden);
    printf("%s: kernel texts and choices\n", differ == 0 ? "PASS" : "FAIL");
    return differ == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    char  *now = NULL;
    size_t bytes;
    setenv("PTXPACK_PTXAS", "none", 1);
    if (argc > 1 && strcmp(argv[1], "--builds") == 0)
        return write_texts(NULL, stdout, argc > 2 ? argv[2] : "") ? 0 : 1;
    if (argc > 1 && strcmp(argv[1], "--choices") == 0)
        return write_all(NULL, stdout) ? 0 : 1;
    FILE *out = argc > 1 && strcmp(argv[1], "--update") == 0 ? fopen(golden, "w")
                                                             : open_memstream(&now, &bytes);
    bool  good = out != NULL && write_all(out, NULL);
    if (out == NULL || fclose(out) != 0 || !good)
        return 1;
    int status = now != NULL ? compare(now) : 0;
    free(now);
    return status;
}
