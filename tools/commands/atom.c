/* atom.c - "ptxpack atom": the matrix multiply and copy instructions, tiled MMAs, wgmma descriptors. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/atom/inspect.h"
#include "tools/notation/atom_show.h"
#include "tools/command.h"
#include "tools/notation/draw.h"
#include "loader/loader.h"

static const char synopsis[] =
    "ptxpack atom [NAME|PATTERN] [--latex|--svg|--json]\n"
    "       ptxpack atom --tiled NAME [--atoms LAYOUT] [--tile TILER] [--latex|--svg|--json]\n"
    "       ptxpack atom --desc [--type T] [--major k|mn] [--swizzle S] [--tile SHAPE] [--rows N] [--json]\n"
    "  lists every atom, or those that match a PATTERN such as \"SM80_16x8x16_*\", or shows one\n"
    "  such as SM80_16x8x16_F32F16F16F32_TN; --tiled repeats one atom in a tiled MMA; --desc shows the\n"
    "  descriptor by which wgmma reads a tile in shared memory";

typedef struct settings {
    bool        latex, svg, json, desc;
    const char *tiled, *atoms, *tile, *type, *major, *swizzle;
    int64_t     rows, bits;
} settings;

static int refused(void) { return command_fail("atom", "%s", ptxpack_detail(NULL)), COMMAND_USAGE; }

/* ---- the list --------------------------------------------------------------------------------------- */
static void list_mma(const ptxpack_mma_atom *x, bool json)
{
    char shape[48];
    snprintf(shape, sizeof shape, "(%d,%d,%d)", x->m, x->n, x->k);
    if (!json) {
        printf("%-44s %-12s %-5s %-5s %-5s %-5s sm_%d%s\n", x->name, shape, ptxpack_value_name(x->d),
               ptxpack_value_name(x->a), ptxpack_value_name(x->b), ptxpack_value_name(x->c), x->arch,
               x->arch_specific ? "a" : "");
        return;
    }
    json_open(NULL, '{');
    json_text("name", x->name);
    json_text("shape_mnk", shape);
    json_text("d", ptxpack_value_name(x->d));
    json_text("a", ptxpack_value_name(x->a));
    json_text("b", ptxpack_value_name(x->b));
    json_text("c", ptxpack_value_name(x->c));
    json_int("arch", x->arch);
    json_bool("arch_specific", x->arch_specific);
    json_int("isa", x->isa);
    json_close();
}

static void list_copy(const ptxpack_copy_atom *x, bool json)
{
    long long threads = (long long)ptxpack_size(&x->thr_id), bits = (long long)ptxpack_size(&x->ref);
    if (!json) {
        char text[48];
        snprintf(text, sizeof text, "%lld bit%s%s, %lld thread%s", bits, bits == 1 ? "" : "s",
                 x->sized ? " or more" : "", threads, threads == 1 ? "" : "s");
        printf("%-44s %-36s sm_%d\n", x->name, text, x->arch);
        return;
    }
    json_open(NULL, '{');
    json_text("name", x->name);
    json_int("threads", threads);
    json_int("bits", bits);
    json_text("from", ptxpack_space_name(x->src_space));
    json_text("to", ptxpack_space_name(x->dst_space));
    json_int("arch", x->arch);
    json_int("isa", x->isa);
    json_close();
}

/* Lists the atoms whose names match; it is an error if there are none. */
static int list(const char *pattern, bool json)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    size_t            count = 0;
    if (json)
        json_open(NULL, '[');
    for (size_t i = 0; ptxpack_mma_atom_at(i, &mma); i++)
        if (fnmatch(pattern, mma.name, 0) == 0 && ++count)
            list_mma(&mma, json);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (fnmatch(pattern, copy.name, 0) == 0 && ++count)
            list_copy(&copy, json);
    if (json)
        json_close();
    if (count == 0)
        return command_fail("atom", "no atom has a name that matches \"%s\"", pattern), COMMAND_USAGE;
    return COMMAND_OK;
}

/* ---- one atom --------------------------------------------------------------------------------------- */
static bool is_copy(const char *name)
{
    ptxpack_copy_atom x;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &x); i++)
        if (strcmp(x.name, name) == 0)
            return true;
    return false;
}

static int drawn(ptxpack_status status)
{
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("atom", "%s", ptxpack_detail(NULL));
}

/* Names the nearest among all atoms, matrix multiplies and copies. */
static int unknown(const char *name)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    struct near_names near;
    near_begin(&near, name);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &mma); i++)
        near_offer(&near, mma.name);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        near_offer(&near, copy.name);
    command_fail("atom", "no atom is named \"%s\"; near: %s, %s, %s", name, near.name[0], near.name[1],
                 near.name[2]);
    return COMMAND_USAGE;
}

/* Draws the source and the destination of a copy of `bits`-bit values: cell (t,v) is value v of thread t of the
 * reference. */
static ptxpack_status draw_copy_atom(const ptxpack_copy_atom *atom, int64_t bits, draw_format format)
{
    ptxpack_layout     values = ptxpack_upcast(&atom->ref, bits);
    ptxpack_tuple      extents = ptxpack_product_each(&values.shape);
    ptxpack_layout     tv = ptxpack_make_layout_left(&extents), tiler = ptxpack_tiler_of(&extents);
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_tv(atom, bits, &tv, &tiler);
    ptxpack_layout     src = ptxpack_copy_layout_tv(&copy, PTXPACK_SRC);
    ptxpack_layout     dst = ptxpack_copy_layout_tv(&copy, PTXPACK_DST);
    if (src.shape.status != PTXPACK_OK || dst.shape.status != PTXPACK_OK)
        return src.shape.status != PTXPACK_OK ? src.shape.status : dst.shape.status;
    return draw_copy(stdout, format, &src, &dst, &extents);
}

static int show_one(const settings *s, const char *name)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    bool              copies = is_copy(name), draws = s->latex || s->svg;
    draw_format       format = s->svg ? DRAW_SVG : DRAW_LATEX;
    if (!copies && s->bits != OPTION_NOT_GIVEN)
        return command_fail("atom", "--bits goes with a copy, but %s is not a copy", name), COMMAND_USAGE;
    if ((copies ? ptxpack_copy_atom_find(name, &copy) : ptxpack_mma_atom_find(name, &mma)) != PTXPACK_OK)
        return unknown(name);
    if (draws && copies)
        return drawn(draw_copy_atom(&copy, s->bits != OPTION_NOT_GIVEN ? s->bits : 16, format));
    if (draws)
        return drawn(draw_mma(stdout, format, &mma.a_layout, &mma.b_layout, &mma.c_layout, mma.m, mma.n, mma.k,
                              &mma.thr_id));
    if (copies)
        atom_show_copy(&copy, s->json);
    else
        atom_show_mma(&mma, s->json);
    return COMMAND_OK;
}

/* ---- tiled MMA -------------------------------------------------------------------------------------- */
static ptxpack_status draw_tiled(const ptxpack_tiled_mma *mma, draw_format format)
{
    static const ptxpack_operand operands[3] = {PTXPACK_A, PTXPACK_B, PTXPACK_C};
    ptxpack_layout               tv[3];
    ptxpack_tuple                size = ptxpack_product_each(&mma->tile_size_mnk);
    for (int i = 0; i < 3; i++) {
        tv[i] = ptxpack_mma_layout_tv(mma, operands[i]);
        if (tv[i].shape.status != PTXPACK_OK)
            return tv[i].shape.status;
        if (size.value[i] > DRAW_CELLS)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "a tile of %lld rows is too large for a picture",
                                (long long)size.value[i]);
    }
    return draw_mma(stdout, format, &tv[0], &tv[1], &tv[2], (int)size.value[0], (int)size.value[1],
                    (int)size.value[2], NULL);
}

/* The library's message is about this option's value, or about its default if there is no value. */
static int refused_option(const char *name, const char *text)
{
    if (text == NULL)
        return refused();
    return command_fail("atom", "%s %s: %s", name, text, ptxpack_detail(NULL)), COMMAND_USAGE;
}

/* Reads the layout that an option holds; its modes are M, N and K, or the first of them. */
static int take_layout(const char *name, const char *text, ptxpack_layout *out)
{
    *out = ptxpack_layout_parse(text);
    if (out->shape.status != PTXPACK_OK)
        return refused_option(name, text);
    int rank = ptxpack_rank(&out->shape);
    if (rank <= 3)
        return COMMAND_OK;
    return command_fail("atom", "%s %s has %d modes; there are only M, N and K", name, text, rank),
           COMMAND_USAGE;
}

/* Makes the tiled MMA that the options describe; an error names the option that causes it. */
static int make_tiled(const settings *s, ptxpack_tiled_mma *mma)
{
    ptxpack_mma_atom atom;
    ptxpack_layout   atoms, tile;
    if (is_copy(s->tiled))
        return command_fail("atom", "--tiled: %s is a copy, not an MMA", s->tiled), COMMAND_USAGE;
    if (ptxpack_mma_atom_find(s->tiled, &atom) != PTXPACK_OK)
        return refused();
    if (s->atoms != NULL && take_layout("--atoms", s->atoms, &atoms) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->tile != NULL && take_layout("--tile", s->tile, &tile) != COMMAND_OK)
        return COMMAND_USAGE;
    *mma = ptxpack_make_tiled_mma(&atom, s->atoms != NULL ? &atoms : NULL, NULL);
    if (mma->status != PTXPACK_OK)
        return refused_option("--atoms", s->atoms);
    if (s->tile != NULL)
        *mma = ptxpack_make_tiled_mma(&atom, s->atoms != NULL ? &atoms : NULL, &tile);
    return mma->status == PTXPACK_OK ? COMMAND_OK : refused_option("--tile", s->tile);
}

static int show_tiled(const settings *s)
{
    ptxpack_tiled_mma mma;
    int               status = make_tiled(s, &mma);
    if (status != COMMAND_OK)
        return status;
    if (s->latex || s->svg)
        return drawn(draw_tiled(&mma, s->svg ? DRAW_SVG : DRAW_LATEX));
    return atom_show_tiled(&mma, s->json) == PTXPACK_OK ? COMMAND_OK : refused();
}

/* ---- descriptors ------------------------------------------------------------------------------------ */
/* Finds a type among those that wgmma reads. */
static bool take_type(const char *text, ptxpack_value_type *type)
{
    static const ptxpack_value_type types[] = {
        PTXPACK_VALUE_F16,  PTXPACK_VALUE_BF16, PTXPACK_VALUE_TF32, PTXPACK_VALUE_E4M3,
        PTXPACK_VALUE_E5M2, PTXPACK_VALUE_S8,   PTXPACK_VALUE_U8,   PTXPACK_VALUE_U1,
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        *type = types[t];
        if (strcasecmp(text, ptxpack_value_name(*type)) == 0)
            return true;
    }
    return false;
}

static bool take_swizzle(const char *text, ptxpack_wgmma_swizzle *swizzle)
{
    static const struct {
        const char           *text;
        ptxpack_wgmma_swizzle swizzle;
    } rows[] = {{"none", PTXPACK_WGMMA_NONE},
                {"32", PTXPACK_WGMMA_32B},
                {"64", PTXPACK_WGMMA_64B},
                {"128", PTXPACK_WGMMA_128B}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(text, rows[i].text) == 0) {
            *swizzle = rows[i].swizzle;
            return true;
        }
    return false;
}

/* The smallest tile that one instruction with 64 rows can read. */
static ptxpack_tuple tile_shape(const ptxpack_layout *swizzled, ptxpack_value_type type)
{
    int64_t rows = ptxpack_mode_size(swizzled, 0), k = ptxpack_mode_size(swizzled, 1);
    int64_t least = 256 / ptxpack_value_bits(type);
    return ptxpack_tuple_of(2, (const int64_t[]){rows > 64 ? rows : 64, k > least ? k : least});
}

/* Reads --type, --major and --swizzle. */
static int take_words(const settings *s, ptxpack_value_type *type, ptxpack_wgmma_major *major,
                      ptxpack_wgmma_swizzle *swizzle)
{
    *major = strcmp(s->major, "mn") == 0 ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K;
    if (!take_type(s->type, type))
        return command_fail("atom", "--type: wgmma cannot read \"%s\"", s->type), COMMAND_USAGE;
    if (*major == PTXPACK_WGMMA_K && strcmp(s->major, "k") != 0)
        return command_fail("atom", "--major is k or mn, not \"%s\"", s->major), COMMAND_USAGE;
    if (*major == PTXPACK_WGMMA_MN && ptxpack_value_bits(*type) != 16)
        return command_fail("atom", "--major mn is for 16-bit types, not %s", s->type), COMMAND_USAGE;
    if (take_swizzle(s->swizzle, swizzle))
        return COMMAND_OK;
    return command_fail("atom", "--swizzle is none, 32, 64 or 128, not \"%s\"", s->swizzle), COMMAND_USAGE;
}

static int show_descriptor(const settings *s)
{
    ptxpack_value_type    type;
    ptxpack_wgmma_swizzle swizzle;
    ptxpack_wgmma_major   major;
    char                  rows[24];
    int                   status = take_words(s, &type, &major, &swizzle);
    if (status != COMMAND_OK)
        return status;
    ptxpack_layout swizzled = ptxpack_wgmma_atom(major, swizzle, ptxpack_value_bits(type));
    ptxpack_tuple  shape = s->tile != NULL ? ptxpack_tuple_parse(s->tile) : tile_shape(&swizzled, type);
    ptxpack_layout tile = ptxpack_tile_to_shape(&swizzled, &shape, NULL);
    if (tile.shape.status != PTXPACK_OK)
        return refused_option("--tile", s->tile);
    if (atom_show_descriptor(&tile, major, type, s->rows, s->json) == PTXPACK_OK)
        return COMMAND_OK;
    if (s->rows == 0 ||
        ptxpack_wgmma_descriptor(&tile, major, ptxpack_value_bits(type), 0).status != PTXPACK_OK)
        return refused_option("--tile", s->tile);
    snprintf(rows, sizeof rows, "%lld", (long long)s->rows);
    return refused_option("--rows", rows);
}

/* ---- the command ------------------------------------------------------------------------------------ */
static bool is_pattern(const char *name) { return strpbrk(name, "*?[") != NULL; }

/* What is wrong with the combination of options, or NULL if nothing is.  There are `words` words, the first of
 * them is `name`. */
static const char *conflict(const settings *s, int words, const char *name)
{
    bool draws = s->latex || s->svg;
    if (words > 1)
        return "expected at most one NAME (try --help)";
    if (s->latex + s->svg + s->json > 1)
        return "--latex, --svg and --json exclude each other";
    if ((s->tiled != NULL) + s->desc + (words > 0) > 1)
        return "NAME, --tiled and --desc exclude each other";
    if (draws && (s->desc || (words == 0 && s->tiled == NULL)))
        return "--latex and --svg go with NAME or --tiled";
    if (draws && words > 0 && is_pattern(name))
        return "--latex and --svg draw one NAME, not a pattern";
    if (s->atoms != NULL && s->tiled == NULL)
        return "--atoms goes with --tiled";
    if (s->tile != NULL && s->tiled == NULL && !s->desc)
        return "--tile goes with --tiled or --desc";
    if (!s->desc && (s->type != NULL || s->major != NULL || s->swizzle != NULL || s->rows != OPTION_NOT_GIVEN))
        return "--type, --major, --swizzle and --rows go with --desc";
    if (s->bits != OPTION_NOT_GIVEN && (s->bits < 1 || !draws))
        return s->bits < 1 ? "--bits must be positive" : "--bits goes with --latex or --svg";
    if (s->rows != OPTION_NOT_GIVEN && s->rows < 1)
        return "--rows must be positive";
    return NULL;
}

int cmd_atom(int argc, char **argv)
{
    settings     s = {.rows = OPTION_NOT_GIVEN, .bits = OPTION_NOT_GIVEN};
    int          words;
    const option rows[] = {
        {"tiled", OPTION_TEXT, &s.tiled, "NAME  a tiled MMA of this atom"},
        {"atoms", OPTION_TEXT, &s.atoms,
         "LAYOUT  its atoms along M, N, K, such as \"(2,2,1):(2,1,0)\" (default one)"},
        {"tile", OPTION_TEXT, &s.tile,
         "TILER  its tile, such as \"<32,32,4>\"; of --desc a SHAPE (default what 64 rows need)"},
        {"latex", OPTION_FLAG, &s.latex, "draw C, A and B, or a copy's source and destination, with TikZ"},
        {"svg", OPTION_FLAG, &s.svg, "draw them for a browser"},
        {"bits", OPTION_INT, &s.bits, "N  of a value, in the picture of a copy (default 16)"},
        {"desc", OPTION_FLAG, &s.desc, "the descriptor of a tile in shared memory"},
        {"type", OPTION_TEXT, &s.type,
         "T  its elements: f16, bf16, tf32, e4m3, e5m2, s8, u8, u1 (default f16)"},
        {"major", OPTION_TEXT, &s.major, "k|mn  along which mode neighbours in memory lie (default k)"},
        {"swizzle", OPTION_TEXT, &s.swizzle, "none|32|64|128  bytes (default 128)"},
        {"rows", OPTION_INT, &s.rows,
         "N  that one instruction reads: 64 of A, its N of B (default all of the tile)"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, synopsis, rows, &words);
    if (status >= 0)
        return status;
    const char *wrong = conflict(&s, words, argv[1]);
    if (wrong != NULL)
        return command_fail("atom", "%s", wrong), COMMAND_USAGE;
    if (s.tiled != NULL)
        return show_tiled(&s);
    if (words > 0 && !is_pattern(argv[1]))
        return show_one(&s, argv[1]);
    if (!s.desc)
        return list(words > 0 ? argv[1] : "*", s.json);
    s.type = s.type != NULL ? s.type : "f16";
    s.major = s.major != NULL ? s.major : "k";
    s.swizzle = s.swizzle != NULL ? s.swizzle : "128";
    s.rows = s.rows != OPTION_NOT_GIVEN ? s.rows : 0;
    return show_descriptor(&s);
}
