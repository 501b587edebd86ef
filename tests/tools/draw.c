/* draw.c - pictures that the command cannot ask for: random grids, copies and MMAs of any layouts, bad input.
 * The others, CuTe's texts among them, are in tests/golden/layout.txt and atom.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tools/notation/draw.h"
#include "loader/loader.h"

/* ---- making a picture ----------------------------------------------------------------------------- */
/* GRID and LAYOUT take a layout; COPY the source, the destination and the tile; MMA A, B, C, the shape and,
 * unless it is NULL, the thread map. */
typedef enum kind { GRID, LAYOUT, COPY, MMA } kind;
typedef struct picture {
    kind        what;
    const char *arg[5];
} picture;

static ptxpack_status draw(FILE *f, draw_format format, const picture *p)
{
    const int      tile_at[] = {4, 4, 2, 3};
    ptxpack_layout l[5];
    ptxpack_tuple  tile = ptxpack_tuple_parse("1");
    for (int i = 0; i < 5; i++)
        if (p->arg[i] != NULL && i == tile_at[p->what])
            tile = ptxpack_tuple_parse(p->arg[i]);
        else if (p->arg[i] != NULL)
            l[i] = ptxpack_layout_parse(p->arg[i]);
    switch (p->what) {
    case GRID:
        return draw_grid(f, &l[0]);
    case LAYOUT:
        return draw_layout(f, format, &l[0]);
    case COPY:
        return draw_copy(f, format, &l[0], &l[1], &tile);
    case MMA:
        break;
    }
    return draw_mma(f, format, &l[0], &l[1], &l[2], (int)tile.value[0], (int)tile.value[1], (int)tile.value[2],
                    p->arg[4] != NULL ? &l[4] : NULL);
}

/* Returns the drawing; the caller frees it. */
static char *drawn(draw_format format, const picture *p, ptxpack_status *status)
{
    char  *text = NULL;
    size_t bytes = 0;
    FILE  *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    *status = draw(f, format, p);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static char *must_draw(draw_format format, const picture *p)
{
    ptxpack_status status;
    char          *text = drawn(format, p, &status);
    if (status != PTXPACK_OK)
        fail_msg("%s: %s", p->arg[0], ptxpack_detail(NULL));
    return text;
}

/* ---- copies, as CuTe prints them ------------------------------------------------------------------ */
static uint64_t fnv(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Length and FNV-1a of what CuTe prints, and one line of it. */
static const struct golden {
    picture     p;
    size_t      bytes;
    uint64_t    hash;
    const char *line;
} golden[] = {
    /* clang-format off */
    {{COPY, {"((4,2),(1,2)):((2,8),(0,1))", "((4,2),(1,2)):((2,8),(0,1))", "(8,2)"}},
     3878, 0xf1c167c529e38c19, "\\node at (7,7) {\\Large{\\texttt{7}}};\n"},
    /* ldmatrix x4 of a 16 x 16 tile of halves */
    {{COPY, {"((4,2,4),((2,4),1)):((4,128,32),((16,1),0))", "((16,2),(8,1)):((1,128),(16,0))", "(16,16)"}},
     46374, 0x206d0c13162e3550, "% Layout D TV: ArithTuple(0,0) o ((16,2),(8,1)):((1@0,8@1),(1@1,0))\n"},
    /* clang-format on */
};

static void copies_are_cutes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        const struct golden *g = &golden[i];
        char                *text = must_draw(DRAW_LATEX, &g->p);
        if (strstr(text, g->line) == NULL || strlen(text) != g->bytes || fnv(text) != g->hash)
            fail_msg("row %zu, %s: %zu bytes, hash 0x%016llx, line %s", i, g->p.arg[0], strlen(text),
                     (unsigned long long)fnv(text), strstr(text, g->line) ? "found" : "missing");
        free(text);
    }
}

/* ---- random layouts, counted by hand -------------------------------------------------------------- */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Reads the grid of ((a,b),(c,d)):((e,f),(g,h)) back and compares each number. */
static void read_grid(char *grid, const int s[4], const int d[4])
{
    char *save = NULL, *line = strtok_r(grid, "\n", &save);
    strtok_r(NULL, "\n", &save); /* the numbers of the columns */
    for (int m = 0; m < s[0] * s[1]; m++) {
        strtok_r(NULL, "\n", &save);
        line = strtok_r(NULL, "\n", &save);
        assert_non_null(line);
        assert_int_equal(strtol(line, &line, 10), m);
        for (int n = 0; n < s[2] * s[3]; n++) {
            line = strchr(line, '|');
            assert_non_null(line);
            long offset = strtol(line + 1, &line, 10);
            assert_int_equal(offset, m % s[0] * d[0] + m / s[0] * d[1] + n % s[2] * d[2] + n / s[2] * d[3]);
        }
    }
    assert_non_null(strtok_r(NULL, "\n", &save));
    assert_null(strtok_r(NULL, "\n", &save));
}

static void random_grids_hold_the_offsets(void **state)
{
    uint64_t seed = 20261120;
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        char text[128];
        int  s[4], d[4];
        for (int i = 0; i < 4; i++) {
            s[i] = 1 + (int)(next_random(&seed) % 5);
            d[i] = (int)(next_random(&seed) % 60) - (round % 2 ? 30 : 0);
        }
        snprintf(text, sizeof text, "((%d,%d),(%d,%d)):((%d,%d),(%d,%d))", s[0], s[1], s[2], s[3], d[0], d[1],
                 d[2], d[3]);
        char *grid = must_draw(DRAW_LATEX, &(picture){GRID, {text}});
        read_grid(grid, s, d);
        free(grid);
    }
}

/* ---- bad input ------------------------------------------------------------------------------------ */
static void bad_pictures_are_refused(void **state)
{
    static const struct {
        picture     p;
        const char *line;
    } rows[] = {
        {{GRID, {"<4,2>"}}, "a tiler is not a layout"},
        {{GRID, {"(4,(2"}}, ""},
        {{LAYOUT, {"<4,2>"}}, "a tiler is not a layout"},
        {{COPY, {"(4,4)", "(4,5)", "(4,4)"}}, "destination: value 4 of thread 0 is at 16"},
        {{COPY, {"(4,5)", "(4,4)", "(4,4)"}}, "source: value 4 of thread 0 is at 16"},
        {{COPY, {"(4,4)", "(4,", "(4,4)"}}, ""},
        {{MMA, {"(8,4)", "(8,4)", "(8,8)", "(8,8,4)", "32"}}, "C has 8 threads, but the thread map has 32"},
        {{MMA, {"(8,4)", "(4,4)", "(8,8)", "(8,8,4)", "8"}}, "B has 4 threads, but the thread map has 8"},
        {{MMA, {"(8,8)", "(8,4)", "(8,8)", "(8,8,4)"}}, "A: value 4 of thread 0 is at 32, outside of the 8"},
        {{MMA, {"(4,2)", "(4,2)", "(4,4)", "(4,4,2)", "(2,2):(1,1)"}}, "(2,2):(1,1)"},
        {{MMA, {"(4,2)", "(4,2)", "(4,4)", "(4,4,2)", "(2,"}}, ""},
        {{MMA, {"(8,4,1)", "(8,4)", "(8,8)", "(8,8,4)", "8"}}, "A: a (thread, value) layout has 2 modes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int format = DRAW_LATEX; format <= DRAW_SVG; format++) {
            ptxpack_status status;
            char          *text = drawn((draw_format)format, &rows[i].p, &status);
            if (status != PTXPACK_E_ARG || text[0] || strstr(ptxpack_detail(NULL), rows[i].line) == NULL)
                fail_msg("row %zu: %s, %zu bytes, \"%s\"", i, ptxpack_status_name(status), strlen(text),
                         ptxpack_detail(NULL));
            free(text);
        }
}

static void shapes_of_an_mma_are_checked(void **state)
{
    static const int shape[][3] = {{0, 8, 4}, {8, -8, 4}, {8, 8, INT32_MIN}, {INT32_MAX, INT32_MAX, 4}};
    ptxpack_layout   tv = ptxpack_layout_parse("(1,1)");
    (void)state;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (int format = DRAW_LATEX; format <= DRAW_SVG; format++)
            assert_int_equal(draw_mma(stdout, (draw_format)format, &tv, &tv, &tv, shape[i][0], shape[i][1],
                                      shape[i][2], NULL),
                             PTXPACK_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_cutes),
        cmocka_unit_test(random_grids_hold_the_offsets),
        cmocka_unit_test(bad_pictures_are_refused),
        cmocka_unit_test(shapes_of_an_mma_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
