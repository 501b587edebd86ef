/* draw.c - pictures of layouts: the texts are CuTe's, SVG holds every cell once, bad input gets a no. */
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
/* GRID and LAYOUT take one layout; TV a layout and a tile; COPY source, destination, tile; MMA A, B, C, shape
 * and, unless NULL, the thread map. */
typedef enum kind { GRID, LAYOUT, TV, COPY, MMA } kind;
typedef struct picture {
    kind        what;
    const char *arg[5];
} picture;

static ptxpack_status draw(FILE *f, draw_format format, const picture *p)
{
    const int      tile_at[] = {0, 0, 1, 2, 3};
    ptxpack_layout l[5];
    ptxpack_tuple  tile = ptxpack_tuple_parse("1");
    for (int i = 0; i < 5; i++)
        if (p->arg[i] != NULL && i != tile_at[p->what])
            l[i] = ptxpack_layout_parse(p->arg[i]);
    if (tile_at[p->what])
        tile = ptxpack_tuple_parse(p->arg[tile_at[p->what]]);
    else
        l[0] = ptxpack_layout_parse(p->arg[0]);
    switch (p->what) {
    case GRID:
        return draw_grid(f, &l[0]);
    case LAYOUT:
        return draw_layout(f, format, &l[0]);
    case TV:
        return draw_tv(f, format, &l[0], &tile);
    case COPY:
        return draw_copy(f, format, &l[0], &l[1], &tile);
    case MMA:
        break;
    }
    return draw_mma(f, format, &l[0], &l[1], &l[2], (int)tile.value[0], (int)tile.value[1], (int)tile.value[2],
                    p->arg[4] != NULL ? &l[4] : NULL);
}

/* What is drawn; to be freed. */
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

/* ---- CuTe's texts --------------------------------------------------------------------------------- */
/* Printed by print_layout and print_latex of CuTe 4.7; the `_` of its static integers is taken out. */
static void small_pictures_are_cutes(void **state)
{
    static const struct {
        picture     p;
        const char *want;
    } rows[] = {
        {{GRID, {"(4,(2,3)):(1,(12,4))"}},
         "(4,(2,3)):(1,(12,4))\n"
         "       0    1    2    3    4    5 \n"
         "    +----+----+----+----+----+----+\n"
         " 0  |  0 | 12 |  4 | 16 |  8 | 20 |\n"
         "    +----+----+----+----+----+----+\n"
         " 1  |  1 | 13 |  5 | 17 |  9 | 21 |\n"
         "    +----+----+----+----+----+----+\n"
         " 2  |  2 | 14 |  6 | 18 | 10 | 22 |\n"
         "    +----+----+----+----+----+----+\n"
         " 3  |  3 | 15 |  7 | 19 | 11 | 23 |\n"
         "    +----+----+----+----+----+----+\n"},
        {{GRID, {"(3,4):(-4,1)"}},
         "(3,4):(-4,1)\n"
         "       0    1    2    3 \n"
         "    +----+----+----+----+\n"
         " 0  |  0 |  1 |  2 |  3 |\n"
         "    +----+----+----+----+\n"
         " 1  | -4 | -3 | -2 | -1 |\n"
         "    +----+----+----+----+\n"
         " 2  | -8 | -7 | -6 | -5 |\n"
         "    +----+----+----+----+\n"},
        {{GRID, {"Sw<2,0,2> o 0 o (4,4):(4,1)"}},
         "Sw<2,0,2> o 0 o (4,4):(4,1)\n"
         "       0    1    2    3 \n"
         "    +----+----+----+----+\n"
         " 0  |  0 |  1 |  2 |  3 |\n"
         "    +----+----+----+----+\n"
         " 1  |  5 |  4 |  7 |  6 |\n"
         "    +----+----+----+----+\n"
         " 2  | 10 | 11 |  8 |  9 |\n"
         "    +----+----+----+----+\n"
         " 3  | 15 | 14 | 13 | 12 |\n"
         "    +----+----+----+----+\n"},
        {{GRID, {"Sw<1,0,1> o 96 o (2,3):(3,1)"}}, /* the width is that of the cosize of (2,3):(3,1) */
         "Sw<1,0,1> o 96 o (2,3):(3,1)\n"
         "      0   1   2 \n"
         "    +---+---+---+\n"
         " 0  | 96 | 97 | 99 |\n"
         "    +---+---+---+\n"
         " 1  | 98 | 100 | 101 |\n"
         "    +---+---+---+\n"},
        {{LAYOUT, {"(2,2):(2,1)"}},
         "% Layout: (2,2):(2,1)\n"
         "\\documentclass[convert]{standalone}\n"
         "\\usepackage{tikz}\n"
         "\n"
         "\\begin{document}\n"
         "\\begin{tikzpicture}[x={(0cm,-1cm)},y={(1cm,0cm)},"
         "every node/.style={minimum size=1cm, outer sep=0pt}]\n"
         "\n"
         "\\node[fill=black!00] at (0,0) {0};\n"
         "\\node[fill=black!40] at (0,1) {1};\n"
         "\\node[fill=black!20] at (1,0) {2};\n"
         "\\node[fill=black!60] at (1,1) {3};\n"
         "\\draw[color=black,thick,shift={(-0.5,-0.5)}] (0,0) grid (2,2);\n"
         "\n"
         "\\node at (0,-1) {\\Large{\\texttt{0}}};\n"
         "\\node at (1,-1) {\\Large{\\texttt{1}}};\n"
         "\\node at (-1,0) {\\Large{\\texttt{0}}};\n"
         "\\node at (-1,1) {\\Large{\\texttt{1}}};\n"
         "\\end{tikzpicture}\n"
         "\\end{document}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = must_draw(DRAW_LATEX, &rows[i].p);
        assert_string_equal(text, rows[i].want);
        free(text);
    }
}

static uint64_t fnv(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

#define SM80_C "((4,8),(2,2)):((32,1),(16,8))"
/* Length and FNV-1a of what CuTe prints, and one line of it. */
static const struct golden {
    picture     p;
    size_t      bytes;
    uint64_t    hash;
    const char *line;
} golden[] = {
    {{GRID, {"Sw<3,4,3> o 0 o (8,16):(16,1)"}},
     1865,
     0x1dde7ac1f1973899,
     " 1  |  16 |  17 |  18 |  19 |  20 |  21 |"},
    {{GRID, {"Sw<3,0,3> o 0 o (4,4):(8,1)"}}, 287, 0x679bd28d8ea015ab, " 3  | 27 | 26 | 25 | 24 |\n"},
    {{GRID, {"(4,4):(-1,-4)"}}, 279, 0x2b9dd0b586fb897e, " 3  | -3 | -7 | -11 | -15 |\n"},
    {{GRID, {"(12,10):(100,1)"}}, 1991, 0xc2a7dc96c56deac9, "11  | 1100 | 1101 | 1102 |"},
    {{GRID, {"(100,2)"}}, 3651, 0xad9ca29590d3eac8, "99  |  99 | 199 |\n"},
    {{GRID, {"(6,100):(100000,1)"}}, 12702, 0xadc20195f163510a, " 5  | 500000 | 500001 |"},
    {{LAYOUT, {"Sw<2,0,2> o 0 o (4,4):(4,1)"}},
     1180,
     0xf833c323015a662b,
     "\\node[fill=black!50] at (1,0) {5};\n"},
    {{LAYOUT, {"((2,4)):((1,8))"}}, 928, 0xebb0c51ac356a77e, "% Layout: ((2,4),1):((1,8),0)\n"},
    {{LAYOUT, {"((2,4),5):((1,20),2)"}}, 2227, 0x7820a5e226ef5fe2, "\\node[fill=black!50] at (7,4) {69};\n"},
    {{TV, {"(4,(2,2)):(2,(1,8))", "(4,4)"}},
     1953,
     0xe405d31481ac2f02,
     "% Layout TV: ((2,2),(2,2)):((2@0,1@1),(1@0,2@1))\n"},
    {{TV, {"((4,8),(2,2)):((2@1,1@0),(1@1,8@0))", "(16,8)"}},
     12006,
     0xc530be58c04b15e5,
     "\\node[fill={rgb,255:red,255;green,210;blue,210}] at (15,7) {\\shortstack{T31 \\\\ V3}};\n"},
    {{COPY, {"((4,2),(1,2)):((2,8),(0,1))", "((4,2),(1,2)):((2,8),(0,1))", "(8,2)"}},
     3878,
     0xf1c167c529e38c19,
     "\\node at (7,7) {\\Large{\\texttt{7}}};\n"},
    /* ldmatrix x4 of a 16 x 16 tile of halves */
    {{COPY, {"((4,2,4),((2,4),1)):((4,128,32),((16,1),0))", "((16,2),(8,1)):((1,128),(16,0))", "(16,16)"}},
     46374,
     0x206d0c13162e3550,
     "% Layout D TV: ArithTuple(0,0) o ((16,2),(8,1)):((1@0,8@1),(1@1,0))\n"},
    /* SM80_16x8x8_F16F16F16F16_TN */
    {{MMA, {SM80_C, "((4,8),2):((16,1),8)", SM80_C, "(16,8,8)", "32"}},
     29279,
     0x20a65834a8332fe0,
     "% LayoutB: ArithTuple(0,0) o ((4,8),(2,(1,1))):((2@1,1@0),(1@1,(0,0)))\n"},
    /* SM70_8x8x4: a quad pair, F16F16F16F16_TN and F32F16F16F32_NT */
    {{MMA, {"(8,4):(1,8)", "(8,4):(1,8)", "(8,8):(1,8)", "(8,8,4)", "(4,2):(1,16)"}},
     12301,
     0x233ac8b2c69f1d27,
     "at (7,-2) {\\shortstack{T19 \\\\ V3}};\n"},
    {{MMA,
      {"((4,2),4):((8,4),1)", "((4,2),4):((8,4),1)", "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", "(8,8,4)",
       "(4,2):(1,16)"}},
     12327,
     0x95366259113244ff,
     "% LayoutA: ArithTuple(0,0) o ((4,4,2),(4,(1,1))):((1@1,0,4@0),(1@0,(0,0)))\n"},
    /* four of those, (2,2):(2,1) */
    {{MMA,
      {"((4,2,2,2),(4,(1,1))):((16,0,8,4),(1,(0,0)))", "((4,2,2,2),(4,(1,1))):((16,8,0,4),(1,(0,0)))",
       "(((2,2),2,2,2),((2,2,2),(1,1))):(((1,32),128,8,4),((16,2,64),(0,0)))", "(16,16,4)"}},
     34719,
     0xbb86ba59835bb2ca,
     "at (15,15) {\\shortstack{T31 \\\\ V7}};\n"},
    /* SM80_16x8x16_F32F16F16F32_TN, (2,2):(1,2), on 32 x 32 x 16 */
    {{MMA,
      {"((4,8,2,2),((2,2,2),(1,1))):((64,1,16,0),((32,8,256),(0,0)))",
       "((4,8,2,2),((2,2),(2,1))):((64,1,0,8),((32,256),(16,0)))",
       "((4,8,2,2),((2,2),(1,2))):((64,1,16,256),((32,8),(0,512)))", "(32,32,16)"}},
     180223,
     0xc0b05c69474c933a,
     "at (31,31) {\\shortstack{T127 \\\\ V7}};\n"},
    /* SM90_16x8x4_F64F64F64F64_TN */
    {{MMA, {"((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", SM80_C, "(16,8,4)", "32"}},
     20777,
     0x19476a37d0ab18ef,
     "% LayoutA: ArithTuple(0,0) o ((4,8),(2,(1,1))):((1@1,1@0),(8@0,(0,0)))\n"},
    /* SM90 MMA_64x8x32_S32S8S8_SS_TN: A and B lie in shared memory, every thread sees all of them */
    {{MMA,
      {"(128,(64,32)):(0,(1,64))", "(128,(8,32)):(0,(1,8))", "((4,8,4),(2,2,1)):((128,1,16),(64,8,512))",
       "(64,8,32)", "128"}},
     252091,
     0xc79911823cb09c91,
     "at (63,-2) {\\shortstack{T0 \\\\ V2047}};\n"},
};

static void large_pictures_are_cutes(void **state)
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

/* ---- what CuTe cannot draw ------------------------------------------------------------------------ */
static void coordinates_fill_the_cells(void **state)
{
    (void)state;
    char *grid = must_draw(DRAW_LATEX, &(picture){GRID, {"(2,(2,2)):(1@0,(1@1,10@1))"}});
    assert_string_equal(grid, "(2,(2,2)):(1@0,(1@1,10@1))\n"
                              "           0        1        2        3 \n"
                              "    +--------+--------+--------+--------+\n"
                              " 0  |  (0,0) |  (0,1) | (0,10) | (0,11) |\n"
                              "    +--------+--------+--------+--------+\n"
                              " 1  |  (1,0) |  (1,1) | (1,10) | (1,11) |\n"
                              "    +--------+--------+--------+--------+\n");
    free(grid);
    char *latex = must_draw(DRAW_LATEX, &(picture){LAYOUT, {"(2,2):(1@0,-2@1)"}});
    assert_non_null(strstr(latex, "\\node[fill=black!70] at (1,1) {(1,-2)};\n")); /* 1 - 2 = 7 mod 8 */
    free(latex);
}

static void negative_offsets_have_colours(void **state)
{
    static const char *const grey[] = {"black!00", "black!40", "black!20", "black!60",
                                       "black!10", "black!50", "black!30", "black!70"};
    (void)state;
    char *text = must_draw(DRAW_LATEX, &(picture){LAYOUT, {"(4,5):(-1,-4)"}}), line[80];
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 5; n++) {
            int offset = -m - 4 * n;
            snprintf(line, sizeof line, "\\node[fill=%s] at (%d,%d) {%d};\n", grey[(offset + 80) % 8], m, n,
                     offset);
            assert_non_null(strstr(text, line));
        }
    free(text);
}

/* Coordinates, indices and integers with a basis path say the same. */
static void coordinates_place_threads_as_indices_do(void **state)
{
    static const picture same[][2] = {
        {{TV, {"((4,8),(2,2)):((2@1,1@0),(1@1,8@0))", "(16,8)"}}, {TV, {SM80_C, "(16,8)"}}},
        {{TV, {"(2,4):(0,1@1)", "(1,4)"}}, {TV, {"(2,4):(0,1)", "(1,4)"}}},
        {{TV, {"(2,4):(4@0,1@0)", "8"}}, {TV, {"(2,4):(4,1)", "(8,1)"}}},
        {{TV, {"(2,4):(4,1)", "((2,2),(1,2))"}}, {TV, {"(2,4):(4,1)", "(4,2)"}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char *a = must_draw(DRAW_LATEX, &same[i][0]), *b = must_draw(DRAW_LATEX, &same[i][1]);
        assert_string_equal(strchr(a, '\n'), strchr(b, '\n'));
        free(a);
        free(b);
    }
}

/* ---- random layouts against a count by hand ------------------------------------------------------- */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Read the grid of ((a,b),(c,d)):((e,f),(g,h)) back and compare each number. */
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

/* ---- SVG ------------------------------------------------------------------------------------------ */
/* One element after the other: name, attributes, text. */
typedef struct element {
    char name[16], attributes[256], text[4096];
} element;

/* The next start tag of what this test calls well-formed: elements that are empty or hold text, attributes in
 * double quotes, no stray < or &; one <svg> round all of them.  False at the end of the document. */
static bool next_element(const char **at, element *e)
{
    int used = 0;
    memset(e, 0, sizeof *e);
    if (strcmp(*at, "</svg>\n") == 0)
        return false;
    assert_int_equal(sscanf(*at, "<%15[a-z]%n", e->name, &used), 1);
    *at += used;
    for (used = 0; **at && **at != '>'; ++*at) {
        assert_true(used < 255 && **at != '<' && **at != '&');
        e->attributes[used++] = **at;
    }
    assert_int_equal(*(*at)++, '>');
    if (used && e->attributes[used - 1] == '/') {
        e->attributes[used - 1] = '\0';
    } else if (strcmp(e->name, "svg") != 0) {
        char close[24];
        snprintf(close, sizeof close, "</%s>", e->name);
        const char *end = strchr(*at, '<');
        assert_true(end && end - *at < (long)sizeof e->text && strncmp(end, close, strlen(close)) == 0);
        memcpy(e->text, *at, (size_t)(end - *at));
        for (const char *amp = strchr(e->text, '&'); amp != NULL; amp = strchr(amp + 1, '&'))
            assert_true(strncmp(amp, "&lt;", 4) == 0 || strncmp(amp, "&gt;", 4) == 0);
        *at = end + strlen(close);
    }
    assert_int_equal(*(*at)++, '\n');
    return true;
}

static long attribute(const element *e, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = strstr(e->attributes, key);
    assert_non_null(at);
    return strtol(at + strlen(key), NULL, 10);
}

/* A matrix that a picture must hold: its place in cells, and for each cell what is written there. */
typedef struct matrix {
    int            rows, cols, row, col;
    bool           transposed;
    ptxpack_layout tv; /* (thread, value) -> index, bijective */
} matrix;

static int find_matrix(const matrix *m, int matrices, long row, long col)
{
    for (int i = 0; i < matrices; i++)
        if (row >= m[i].row && row < m[i].row + m[i].rows && col >= m[i].col && col < m[i].col + m[i].cols)
            return i;
    fail_msg("a cell at row %ld, column %ld is in no matrix", row, col);
    return -1;
}

/* Every cell of every matrix is there once, with the thread and value that the layout says, in its colour. */
static void check_svg(const char *at, const matrix *m, int matrices, long width, long height)
{
    static const char *const hue[] = {"175,175,255", "175,255,175", "255,255,175", "255,175,175",
                                      "210,210,255", "210,255,210", "255,255,210", "255,210,210"};
    element                  e, upper, lower;
    bool                     seen[3][4096] = {{false}};
    int                      cells = 0, want = 0;
    char                     text[64];
    for (int i = 0; i < matrices; i++)
        want += m[i].rows * m[i].cols;
    assert_true(next_element(&at, &e));
    assert_string_equal(e.name, "svg");
    snprintf(text, sizeof text, "viewBox=\"0 0 %ld %ld\"", width * 20 + 1, height * 20 + 1);
    assert_non_null(strstr(e.attributes, text));
    assert_non_null(strstr(e.attributes, " xmlns=\"http://www.w3.org/2000/svg\""));
    while (next_element(&at, &e)) {
        if (strcmp(e.name, "rect") != 0)
            continue;
        assert_true(next_element(&at, &upper) && next_element(&at, &lower));
        long t, v, x = attribute(&e, "x"), y = attribute(&e, "y");
        int  i = find_matrix(m, matrices, y / 20, x / 20);
        assert_int_equal(sscanf(upper.text, "T%ld", &t), 1);
        assert_int_equal(sscanf(lower.text, "V%ld", &v), 1);
        assert_int_equal(attribute(&upper, "x"), x + 10);
        assert_true(attribute(&upper, "y") > y && attribute(&upper, "y") < attribute(&lower, "y"));
        assert_true(attribute(&lower, "y") < y + 20);
        long down = y / 20 - m[i].row, right = x / 20 - m[i].col;
        long index = m[i].transposed ? right + down * m[i].cols : down + right * m[i].rows;
        assert_int_equal(ptxpack_at(&m[i].tv, t + v * ptxpack_mode_size(&m[i].tv, 0)), index);
        assert_false(seen[i][index]);
        seen[i][index] = true;
        snprintf(text, sizeof text, "fill=\"rgb(%s)\"", hue[t % 8]);
        assert_non_null(strstr(e.attributes, text));
        cells++;
    }
    assert_int_equal(cells, want);
}

static void every_cell_is_in_the_svg_once(void **state)
{
    const char   *a = "((4,8),(2,2,2)):((32,1),(16,8,128))", *b = "((4,8),(2,2)):((16,1),(8,64))";
    const char   *c = SM80_C, *src = "(8,4):(4,1)", *dst = "(8,4):(1,8)", *tv = "(4,(2,2)):(2,(1,8))";
    const picture mma = {MMA, {a, b, c, "(16,8,16)", "32"}}, copy = {COPY, {src, dst, "(4,8)"}},
                  one = {TV, {tv, "(4,4)"}};
    const matrix abc[] = {{16, 8, 18, 18, false, ptxpack_layout_parse(c)},
                          {16, 16, 18, 1, false, ptxpack_layout_parse(a)},
                          {16, 8, 1, 18, true, ptxpack_layout_parse(b)}};
    const matrix sd[] = {{4, 8, 1, 1, false, ptxpack_layout_parse(src)},
                         {4, 8, 1, 12, false, ptxpack_layout_parse(dst)}};
    const matrix single = {4, 4, 1, 1, false, ptxpack_layout_parse(tv)};
    (void)state;
    char *text = must_draw(DRAW_SVG, &mma);
    check_svg(text, abc, 3, 26, 34);
    free(text);
    text = must_draw(DRAW_SVG, &copy);
    check_svg(text, sd, 2, 21, 5);
    free(text);
    text = must_draw(DRAW_SVG, &one);
    check_svg(text, &single, 1, 5, 5);
    free(text);
}

static void svg_of_a_layout_holds_its_offsets(void **state)
{
    (void)state;
    char       *text = must_draw(DRAW_SVG, &(picture){LAYOUT, {"Sw<2,0,2> o 0 o (4,4):(4,1)"}});
    const char *at = text;
    bool        seen[16] = {false};
    element     e, label;
    assert_true(next_element(&at, &e) && next_element(&at, &e));
    assert_string_equal(e.name, "title");
    assert_string_equal(e.text, "Layout: Sw&lt;2,0,2&gt; o 0 o (4,4):(4,1)");
    while (next_element(&at, &e))
        if (strcmp(e.name, "rect") == 0) {
            assert_true(next_element(&at, &label));
            long offset = strtol(label.text, NULL, 10);
            long m = attribute(&e, "y") / 20 - 1, n = attribute(&e, "x") / 20 - 1;
            assert_true(m >= 0 && m < 4 && n >= 0 && n < 4);
            assert_int_equal(offset, 4 * m + (n ^ m));
            bool white = strstr(label.attributes, "fill=\"white\"") != NULL; /* on dark grey */
            assert_int_equal(white, offset % 8 >= 6);
            assert_false(seen[offset]);
            seen[offset] = true;
        }
    for (int i = 0; i < 16; i++)
        assert_true(seen[i]);
    free(text);
}

/* Cells grow with what they hold; the numbers of rows and columns shrink to the cells. */
static void long_texts_fit_their_cells(void **state)
{
    (void)state;
    char *text = must_draw(DRAW_SVG, &(picture){LAYOUT, {"(2,2):(1,1234567)"}});
    assert_non_null(strstr(text, "viewBox=\"0 0 106 106\"")); /* three cells of 7 digits, 5 wide each */
    assert_non_null(strstr(text, "<rect x=\"70\" y=\"35\" width=\"35\" height=\"35\""));
    free(text);
    text = must_draw(DRAW_SVG, &(picture){TV, {"(1,10001)", "(1,10001)"}});
    assert_non_null(strstr(text, "width=\"30\" height=\"30\"")); /* V10000 */
    assert_non_null(strstr(text, " font-size=\"9\">10000<"));
    free(text);
    text = must_draw(DRAW_SVG, &(picture){TV, {"(10001,1)", "(10001,1)"}});
    assert_non_null(strstr(text, "width=\"30\" height=\"30\"")); /* T10000 */
    assert_non_null(strstr(text, " font-size=\"12\">99<"));
    free(text);
}

/* ---- no ------------------------------------------------------------------------------------------- */
static void bad_pictures_are_refused(void **state)
{
    static const struct {
        picture     p;
        const char *line;
    } rows[] = {
        {{GRID, {"8:1"}}, "a grid shows 2 modes, this layout has 1"},
        {{GRID, {"(2,3,4)"}}, "a grid shows 2 modes, this layout has 3"},
        {{GRID, {"<4,2>"}}, "a tiler is not a layout"},
        {{GRID, {"(257,256)"}}, "257 x 256 is too large to draw: at most 65536 cells"},
        {{GRID, {"(4,(2"}}, ""},
        {{LAYOUT, {"(2,3,4)"}}, "at most 2 modes, this layout has 3"},
        {{LAYOUT, {"<4,2>"}}, "a tiler is not a layout"},
        {{LAYOUT, {"(1048576,1048576):(0,0)"}}, "1048576 x 1048576 is too large"},
        {{TV, {"(4,2,2):(2,1,8)", "(4,4)"}}, "a (thread, value) layout has 2 modes, this one has 3"},
        {{TV, {"(4,4)", "(4,4,4)"}}, "a tile of 2 modes, this one has 3"},
        {{TV, {"(4,5)", "(4,4)"}}, "TV layout: value 4 of thread 0 is at 16, outside of the 4 x 4 tile"},
        {{TV, {"(4,4):(-1,4)", "(4,4)"}}, "TV layout: value 0 of thread 1 is at -1, outside"},
        {{TV, {"(4,4):(2@0,1@1)", "(4,4)"}}, "TV layout: value 0 of thread 2 is at (4,0), outside"},
        {{TV, {"(4,4):(1@0,1@2)", "(4,4)"}}, "outside"},
        {{TV, {"(16777216,2):(0,1)", "(4,4)"}}, "33554432 (thread, value) pairs are too many"},
        {{TV, {"(4,4)", "(4096,4096)"}}, "a tile of 4096 x 4096 is too large"},
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

static void the_largest_pictures_are_drawn(void **state)
{
    static const picture rows[] = {{LAYOUT, {"(256,256)"}},
                                   {LAYOUT, {"65536"}},
                                   {LAYOUT, {"(1,65536)"}},
                                   {TV, {"(8,8192)", "(1,65536)"}}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = must_draw(DRAW_SVG, &rows[i]);
        int   cells = 0;
        for (const char *at = text; *at; at++)
            cells += strncmp(at, "<rect", 5) == 0;
        assert_int_equal(cells, DRAW_CELLS);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_are_cutes),
        cmocka_unit_test(large_pictures_are_cutes),
        cmocka_unit_test(coordinates_fill_the_cells),
        cmocka_unit_test(negative_offsets_have_colours),
        cmocka_unit_test(coordinates_place_threads_as_indices_do),
        cmocka_unit_test(random_grids_hold_the_offsets),
        cmocka_unit_test(every_cell_is_in_the_svg_once),
        cmocka_unit_test(svg_of_a_layout_holds_its_offsets),
        cmocka_unit_test(long_texts_fit_their_cells),
        cmocka_unit_test(bad_pictures_are_refused),
        cmocka_unit_test(shapes_of_an_mma_are_checked),
        cmocka_unit_test(the_largest_pictures_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
