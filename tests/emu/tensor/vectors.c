/* vectors.c - compares with the results of an H200 for the matrices of emu_vectors.h, bit for bit, without a
 * GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emu_vectors.h"
#include "tests/support/unit.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { SHOWN = 20 };
static int shown;

static const char *file_name(void)
{
    const char *name = getenv("PTXPACK_EMU_VECTORS");
    return name != NULL ? name : "tests/data/emu_vectors.bin";
}

static void read_bytes(FILE *file, void *to, size_t bytes)
{
    if (fread(to, 1, bytes, file) != bytes)
        fail_msg("%s is too short", file_name());
}

static void explain(const struct vectors_case *c, enum vectors_kind kind, const uint32_t *model,
                    const uint32_t *gpu, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (model[i] != gpu[i] && shown++ < SHOWN)
            printf("%s, %s: word %zu of D is %08x on the GPU, %08x here\n", c->name, vectors_kind_name(kind), i,
                   gpu[i], model[i]);
}

/* Compares all experiments of a case; returns how many differ. */
static int compare_case(FILE *file, const struct vectors_case *c, int number)
{
    static struct vectors_input in;
    static uint32_t             gpu[VECTORS_KIND_COUNT][VECTORS_FULL], hash[VECTORS_KIND_COUNT][VECTORS_EACH];
    const size_t                words = vectors_d_words(c), full = words < VECTORS_FULL ? words : VECTORS_FULL;
    int                         missed = 0;
    for (int kind = 0; kind < VECTORS_KIND_COUNT; kind++)
        read_bytes(file, gpu[kind], full * sizeof gpu[0][0]);
    read_bytes(file, hash, sizeof hash);
    for (int kind = 0; kind < VECTORS_KIND_COUNT; kind++)
        for (int e = 0; e < VECTORS_EACH; e++) {
            vectors_make(c, number, (enum vectors_kind)kind, e, &in);
            vectors_multiply(c, &in);
            if (vectors_hash(in.c, words) == hash[kind][e])
                continue;
            if (missed++ == 0)
                printf("%s, %s, experiment %d differs\n", c->name, vectors_kind_name((enum vectors_kind)kind),
                       e);
            if (e == 0)
                explain(c, (enum vectors_kind)kind, in.c, gpu[kind], full);
        }
    return missed;
}

TEST(results_are_those_of_the_gpu)
{
    char                header[sizeof VECTORS_HEADER] = "", name[128];
    struct vectors_case c;
    int                 missed = 0, cases = 0;
    size_t              results = 0;
    FILE               *file = fopen(file_name(), "rb");
    if (file == NULL)
        fail_msg("%s cannot be read", file_name());
    read_bytes(file, header, sizeof header - 1);
    assert_string_equal(header, VECTORS_HEADER);
    for (; vectors_case_at(cases, &c); cases++) {
        if (fgets(name, sizeof name, file) == NULL)
            fail_msg("%s ends before %s", file_name(), c.name);
        name[strcspn(name, "\n")] = '\0';
        assert_string_equal(name, c.name);
        missed += compare_case(file, &c, cases);
        results += vectors_d_words(&c) * VECTORS_KIND_COUNT * VECTORS_EACH;
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    printf("%d cases, %zu words of results, %d experiments differ\n", cases, results, missed);
    assert_int_equal(missed, 0);
}

/* The comparison finds a rule with one fraction bit less. */
TEST(other_rules_are_told_apart)
{
    static struct vectors_input in, other;
    struct vectors_case         c;
    int                         told = 0, floats = 0;
    for (int i = 0; vectors_case_at(i, &c); i++) {
        if (c.p.c != TENSOR_f32 || c.p.rule.method != TENSOR_FUSED) /* f16 hides the difference */
            continue;
        bool differs = false;
        for (int e = 0; e < VECTORS_EACH; e++) {
            struct vectors_case wrong = c;
            wrong.p.rule.fraction--;
            vectors_make(&c, i, VECTORS_spread, e, &in);
            other = in;
            vectors_multiply(&c, &in);
            vectors_multiply(&wrong, &other);
            differs = differs || memcmp(in.c, other.c, vectors_d_words(&c) * sizeof in.c[0]) != 0;
        }
        told += differs;
        floats++;
    }
    printf("%d of %d cases notice a fraction bit less\n", told, floats);
    assert_true(told == floats && floats > 10);
}

RUN_TESTS(NULL, NULL)
