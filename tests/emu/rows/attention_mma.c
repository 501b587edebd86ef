/* attention_mma.c - compares every mma.sync attention kernel on the emulated GPU with the same kernel on an
 * H200.
 *
 *   attention_mma                compare with tests/data/attention_h200.bin
 *   attention_mma record FILE    write that file, on a GPU of sm_90
 *
 * The matrix instructions are exact.  ex2.approx, lg2.approx and rcp.approx are not, because only the hardware
 * has its exact bits; so a probability may be rounded to its neighbour.  Nearly all elements are equal bit by
 * bit, and the errors of the others are smaller than the resolution of the element type at the largest element
 * of the row.
 *
 * file   for each problem in the order below: o, uint16 [rows][head_dim]; lse, float [rows]; little endian */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host/attention/inspect.h"
#include "tools/problem/attention_problem.h"
#include "tools/problem/attention_run.h"
#include "tools/command.h"
#include "tools/device.h"

enum { ROWS = 17, KEYS = 333 };
/* Together they run all rows of ptx/attention/mma.ptx; sm_90 has rows of its own. */
static const char *const archs[] = {"sm_80", "sm_86", "sm_75"};
static const char *const types[] = {"f16", "bf16"};
static const int         dims[] = {32, 40, 64, 96, 128, 192, 256};

static long elements, equal, far_off, lse_off;

/* The row of mma.ptx that would be taken if there were no decode.ptx, which takes as few query rows as these. */
static const ptxpack_variant *find_row(const device *d, const ptxpack_attention_desc *desc)
{
    double                 least = INFINITY;
    const ptxpack_variant *found = NULL;
    plan_survey            survey = {.count = 0};
    plan_survey_of(&attention_op, d->handle, NULL, desc, &survey);
    for (size_t i = 0; i < survey.count; i++) {
        const plan_candidate *c = &survey.candidate[i];
        if (strcmp(c->row->file, "attention/mma.ptx") == 0 && !c->refused && !c->behind && c->cost < least)
            found = c->row, least = c->cost;
    }
    return found;
}

static int run_problem(const char *choice, const char *arch, const char *type, int dim, attention_problem *p)
{
    attention_settings s = {.subcommand = "test",
                            .batch = 1,
                            .seqlen_q = ROWS,
                            .seqlen_kv = KEYS,
                            .heads_q = 1,
                            .heads_kv = OPTION_NOT_GIVEN,
                            .head_dim = dim,
                            .head_dim_v = OPTION_NOT_GIVEN,
                            .seed = 11,
                            .scale = NAN, /* 1/sqrt(head_dim) */
                            .layout = "bshd",
                            .dtype = type,
                            .repeat = 1,
                            .lengths = {.page = OPTION_NOT_GIVEN},
                            .append = {.rows = OPTION_NOT_GIVEN, .rotary = OPTION_NOT_GIVEN},
                            .mask = {.causal = ""}};
    device             d = {.handle = NULL};
    setenv("PTXPACK_ARCH", arch, 1);
    int status = attention_problem_make(&s, p);
    if (status == COMMAND_OK && device_open_as(&d, choice, NULL) != PTXPACK_OK)
        status = command_fail("test", "%s", d.line);
    if (status == COMMAND_OK)
        status = attention_run_row(&d, p, &s, find_row(&d, &p->desc));
    device_close(&d);
    return status;
}

static bool compare(const attention_problem *p, FILE *file)
{
    ptxpack_dtype type = p->desc.dtype;
    int           dim = p->desc.head_dim;
    double        resolution = type == PTXPACK_F16 ? 0x1p-10 : 0x1p-7;
    uint16_t      wanted[256];
    float         lse[ROWS];
    for (int row = 0; row < ROWS; row++) {
        const uint16_t *got = (const uint16_t *)p->tensor[TENSOR_O] + row * dim;
        double          largest = 0, error = 0;
        if (fread(wanted, sizeof *wanted, (size_t)dim, file) != (size_t)dim)
            return false;
        for (int c = 0; c < dim; c++) {
            double value = ptxpack_to_float(type, wanted[c]), other = ptxpack_to_float(type, got[c]);
            largest = fmax(largest, fabs(value));
            error = fmax(error, fabs(value - other));
            equal += wanted[c] == got[c];
        }
        elements += dim;
        far_off += !(error <= resolution * largest);
    }
    if (fread(lse, sizeof *lse, ROWS, file) != ROWS)
        return false;
    for (int row = 0; row < ROWS; row++)
        lse_off += !(fabs((double)lse[row] - p->lse[row]) <= 2e-6);
    return true;
}

static bool record(const attention_problem *p, FILE *file)
{
    return fwrite(p->tensor[TENSOR_O], sizeof(uint16_t), (size_t)(ROWS * p->desc.head_dim), file) ==
               (size_t)(ROWS * p->desc.head_dim) &&
           fwrite(p->lse, sizeof(float), ROWS, file) == ROWS;
}

static int run_all(FILE *file, bool records)
{
    for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
                attention_problem p = {.ms = 0};
                if (strcmp(archs[a], "sm_75") == 0 && strcmp(types[t], "bf16") == 0)
                    continue;
                if (run_problem(records ? "gpu" : "emu", archs[a], types[t], dims[i], &p) != COMMAND_OK)
                    return 1;
                if (!(records ? record(&p, file) : compare(&p, file)))
                    return fprintf(stderr, "attention_mma: the file is too short, or the disk is full\n"), 1;
                attention_problem_free(&p);
            }
    return 0;
}

int main(int argc, char **argv)
{
    static const char data[] = "tests/data/attention_h200.bin";
    bool              records = argc == 3 && strcmp(argv[1], "record") == 0;
    FILE             *file = fopen(records ? argv[2] : data, records ? "wb" : "rb");
    setenv("PTXPACK_EMU_SM", "90", 1);
    if (file == NULL)
        return fprintf(stderr, "attention_mma: %s cannot be opened\n", records ? argv[2] : data), 1;
    int status = run_all(file, records);
    if (fclose(file) != 0 || status != 0 || records)
        return status;
    printf("%ld of %ld elements of o are the H200's bit by bit; rows further off than the type resolves: "
           "%ld; "
           "lse: %ld\n",
           equal, elements, far_off, lse_off);
    return far_off != 0 || lse_off != 0 || (double)equal < 0.995 * (double)elements;
}
