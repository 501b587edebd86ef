/* atom.c - "ptxpack atom": the matrix multiply and copy instructions, tiled MMAs, wgmma descriptors. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "atom.h"
#include "host/atom/inspect.h"
#include "tools/command.h"
#include "tools/notation/atom_show.h"
#include "tools/notation/atom_script.h"
#include "tools/notation/atom_spelling.h"
#include "tools/notation/draw.h"
#include "loader/loader.h"

static const char synopsis[] =
    "ptxpack atom [NAME|PATTERN] [--latex|--svg|--json]\n"
    "       ptxpack atom --tiled MMA [--atoms LAYOUT] [--tile TILER] [--tensor LAYOUT --operand A|B|C "
    "[--thread T]]\n"
    "       ptxpack atom --tiled COPY --threads LAYOUT [--values LAYOUT] [--tensor LAYOUT [--thread T] "
    "[--banks]]\n"
    "       ptxpack atom --tiled COPY --tv LAYOUT --tile TILER | --tv LAYOUT --data LAYOUT | --like COPY "
    "--side S|D [--tensor ...]\n"
    "       ptxpack atom --tiled COPY --mma MMA [--atoms LAYOUT] [--tile TILER] --operand A|B|C [--tensor "
    "...]\n"
    "       ptxpack atom EXPRESSIONS | -\n"
    "       ptxpack atom --desc [--type T] [--major k|mn] [--swizzle S] [--tile SHAPE] [--rows N] [--json]\n"
    "  lists every atom, or those that match a PATTERN such as \"SM80_16x8x16_*\", or shows one\n"
    "  such as SM80_16x8x16_F32F16F16F32_TN; --tiled repeats one atom in a tiled MMA or a tiled copy,\n"
    "  and with --tensor shows what a thread of it has of a tensor; --desc shows the descriptor by which\n"
    "  wgmma reads a tile in shared memory; lines of C++, or - for those of stdin, give names to atoms and\n"
    "  tiled ones (using Copy = Copy_Atom<SM75_U32x4_LDSM_N, half_t>; make_tiled_mma(...)), and print_latex "
    "draws";

int atom_refused(const char *name, const char *text)
{
    if (text == NULL)
        command_fail("atom", "%s", ptxpack_detail(NULL));
    else
        command_fail("atom", "%s %s: %s", name, text, ptxpack_detail(NULL));
    return COMMAND_USAGE;
}

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
        if (fnmatch(pattern, mma.name, FNM_CASEFOLD) == 0 && ++count)
            list_mma(&mma, json);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (fnmatch(pattern, copy.name, FNM_CASEFOLD) == 0 && ++count)
            list_copy(&copy, json);
    if (json)
        json_close();
    if (count == 0)
        return command_fail("atom", "no atom has a name that matches \"%s\"", pattern), COMMAND_USAGE;
    return COMMAND_OK;
}

/* ---- one atom --------------------------------------------------------------------------------------- */
bool atom_is_copy(const char *name, ptxpack_copy_atom *copy)
{
    return ptxpack_copy_atom_find(name, copy) == PTXPACK_OK;
}

static int drawn(ptxpack_status status)
{
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("atom", "%s", ptxpack_detail(NULL));
}

int atom_unknown(const char *name)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    struct near_names near;
    char              bare[ATOM_NAME_BYTES];
    name = atom_bare_name(name, bare) ? bare : name;
    near_begin(&near, name);
    near_offer(&near, "DefaultCopy");
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

static int show_one(const atom_settings *s, const char *name)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    bool              copies = atom_is_copy(name, &copy), draws = s->latex || s->svg;
    draw_format       format = s->svg ? DRAW_SVG : DRAW_LATEX;
    if (!copies && s->bits != OPTION_NOT_GIVEN)
        return command_fail("atom", "--bits goes with a copy, but %s is not a copy", name), COMMAND_USAGE;
    if (!copies && ptxpack_mma_atom_find(name, &mma) != PTXPACK_OK)
        return atom_unknown(name);
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
static int take_words(const atom_settings *s, ptxpack_value_type *type, ptxpack_wgmma_major *major,
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

static int show_descriptor(const atom_settings *s)
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
        return atom_refused("--tile", s->tile);
    if (atom_show_descriptor(&tile, major, type, s->rows, s->json) == PTXPACK_OK)
        return COMMAND_OK;
    if (s->rows == 0 ||
        ptxpack_wgmma_descriptor(&tile, major, ptxpack_value_bits(type), 0).status != PTXPACK_OK)
        return atom_refused("--tile", s->tile);
    snprintf(rows, sizeof rows, "%lld", (long long)s->rows);
    return atom_refused("--rows", rows);
}

/* ---- the command ------------------------------------------------------------------------------------ */
static bool is_pattern(const char *name) { return strpbrk(name, "*?[") != NULL; }

/* What is wrong with the combination of options and the name (NULL: none is given), or NULL if nothing is. */
static const char *conflict(const atom_settings *s, const char *name)
{
    bool draws = s->latex || s->svg;
    if (s->latex + s->svg + s->json > 1)
        return "--latex, --svg and --json exclude each other";
    if ((s->tiled != NULL) + s->desc + (name != NULL) > 1)
        return "NAME, --tiled and --desc exclude each other";
    if (draws && (s->desc || (name == NULL && s->tiled == NULL)))
        return "--latex and --svg go with NAME or --tiled";
    if (draws && name != NULL && is_pattern(name))
        return "--latex and --svg draw one NAME, not a pattern";
    if (s->atoms != NULL && s->tiled == NULL)
        return "--atoms goes with --tiled";
    if (s->tile != NULL && s->tiled == NULL && !s->desc)
        return "--tile goes with --tiled or --desc";
    if (s->value_layout != NULL && (s->tiled == NULL || s->tile != NULL))
        return s->tiled == NULL ? "--val-layout goes with --tiled"
                                : "--val-layout and --tile exclude each other";
    if (s->tiled == NULL && (s->threads != NULL || s->values != NULL || s->mma != NULL || s->tv != NULL ||
                             s->data != NULL || s->like != NULL || s->side != NULL || s->operand != NULL ||
                             s->tensor != NULL || s->fragment != NULL || s->banks))
        return "--threads, --values, --mma, --tv, --data, --like, --side, --operand, --tensor, --fragment and "
               "--banks go with --tiled";
    if (s->tiled == NULL && s->thread != OPTION_NOT_GIVEN)
        return "--thread goes with --tiled";
    if (!s->desc && (s->type != NULL || s->major != NULL || s->swizzle != NULL || s->rows != OPTION_NOT_GIVEN))
        return "--type, --major, --swizzle and --rows go with --desc";
    if (s->bits != OPTION_NOT_GIVEN && (s->bits < 1 || (!draws && s->tiled == NULL)))
        return s->bits < 1 ? "--bits must be positive" : "--bits goes with --latex, --svg or --tiled";
    if (s->rows != OPTION_NOT_GIVEN && s->rows < 1)
        return "--rows must be positive";
    return s->tiled != NULL ? atom_tiled_conflict(s) : NULL;
}

bool atom_take_spelling(atom_settings *s, const atom_spelling *spelling)
{
    const struct {
        const char *part, **option;
    } parts[] = {{spelling->atoms, &s->atoms},     {spelling->value_layout, &s->value_layout},
                 {spelling->tile, &s->tile},       {spelling->threads, &s->threads},
                 {spelling->values, &s->values},   {spelling->mma, &s->mma},
                 {spelling->operand, &s->operand}, {spelling->tv, &s->tv},
                 {spelling->data, &s->data},       {spelling->like, &s->like},
                 {spelling->side, &s->side}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].part != NULL && *parts[i].option != NULL)
            return false;
        if (parts[i].part != NULL)
            *parts[i].option = parts[i].part;
    }
    if (spelling->bits > 0 && s->bits == OPTION_NOT_GIVEN)
        s->bits = spelling->bits;
    s->tiled = spelling->name;
    return true;
}

/* Shows what the word, or --tiled, is about. */
static int show_word(atom_settings *s, char *word)
{
    atom_spelling spelling;
    const char   *spelt = word != NULL ? word : s->tiled;
    if (spelt != NULL && atom_spelling_read(spelt, &spelling)) {
        if (!atom_take_spelling(s, &spelling))
            return command_fail("atom", "what %s says is also given by an option", spelt), COMMAND_USAGE;
        word = NULL;
    }
    const char *wrong = conflict(s, word);
    if (wrong != NULL)
        return command_fail("atom", "%s", wrong), COMMAND_USAGE;
    if (s->tiled != NULL)
        return atom_tiled(s);
    if (word != NULL && !is_pattern(word))
        return show_one(s, word);
    if (!s->desc)
        return list(word != NULL ? word : "*", s->json);
    s->type = s->type != NULL ? s->type : "f16";
    s->major = s->major != NULL ? s->major : "k";
    s->swizzle = s->swizzle != NULL ? s->swizzle : "128";
    s->rows = s->rows != OPTION_NOT_GIVEN ? s->rows : 0;
    return show_descriptor(s);
}

/* Takes what a script says of a thread; false: an option says something of it, too. */
static bool take_part(atom_settings *s, const atom_script_part *part)
{
    if (s->thread != OPTION_NOT_GIVEN || s->tensor != NULL || s->fragment != NULL || s->operand != NULL)
        return false;
    s->thread = part->tensor != NULL || part->fragment != NULL ? part->thread : OPTION_NOT_GIVEN;
    s->tensor = part->tensor;
    s->fragment = part->fragment;
    s->operand = part->operand;
    return true;
}

/* One expression of a script, under the options of the command; print_latex draws without --svg, too. */
static int show_expression(void *context, const char *expression, const atom_script_part *part, bool picture)
{
    atom_settings s = *(const atom_settings *)context;
    if (part != NULL && !take_part(&s, part))
        return command_fail("atom", "which thread has what is given by the lines and by options"),
               COMMAND_USAGE;
    char *word = strdup(expression);
    if (word == NULL)
        return command_fail("atom", "out of memory");
    s.latex = s.latex || (picture && !s.svg && !s.json);
    int status = show_word(&s, word);
    free(word);
    return status;
}

/* The text of a script: the word, or for "-" what stdin holds.  NULL: it cannot be read. */
static char *script_of(const char *word)
{
    char  *text = NULL;
    size_t cap = 0;
    if (strcmp(word, "-") != 0)
        return strdup(word);
    if (getdelim(&text, &cap, '\0', stdin) >= 0)
        return text;
    free(text);
    return ferror(stdin) ? NULL : strdup("");
}

static int run_script(atom_settings *s, const char *word)
{
    char *text = script_of(word);
    int   status = text != NULL ? atom_script_run(text, show_expression, s)
                                : command_fail("atom", "cannot read the lines of %s", word);
    free(text);
    return status;
}

int cmd_atom(int argc, char **argv)
{
    atom_settings s = {.rows = OPTION_NOT_GIVEN, .bits = OPTION_NOT_GIVEN, .thread = OPTION_NOT_GIVEN};
    int           words;
    const option  rows[] = {
         {"tiled", OPTION_TEXT, &s.tiled, "NAME  a tiled MMA or a tiled copy of this atom"},
         {"atoms", OPTION_TEXT, &s.atoms,
          "LAYOUT  its atoms along M, N, K, such as \"(2,2,1):(2,1,0)\" (default one)"},
         {"tile", OPTION_TEXT, &s.tile,
          "TILER  its tile, such as \"<32,32,4>\"; of --desc a SHAPE (default what 64 rows need)"},
         {"val-layout", OPTION_TEXT, &s.value_layout,
          "LAYOUT  instead of --tile: the ValLayoutMNK of older versions, such as \"(1,2,1)\""},
         {"threads", OPTION_TEXT, &s.threads,
          "LAYOUT  (m,n) -> thread of a tiled copy, such as \"(16,8):(8,1)\""},
         {"values", OPTION_TEXT, &s.values,
          "LAYOUT  (m,n) -> value of each of its threads, such as \"(1,8)\" (default one)"},
         {"tv", OPTION_TEXT, &s.tv, "LAYOUT  (thread,value) -> element of the --tile; with --data: -> address"},
         {"data", OPTION_TEXT, &s.data, "LAYOUT  of all data, some of which --tv says: make_cotiled_copy"},
         {"like", OPTION_TEXT, &s.like, "COPY  who has what in this tiled copy, as C++ spells it"},
         {"side", OPTION_TEXT, &s.side, "S|D  of that copy: make_tiled_copy_S, make_tiled_copy_D"},
         {"mma", OPTION_TEXT, &s.mma,
          "NAME  a tiled copy for the threads of this tiled MMA, --atoms and --tile are its"},
         {"operand", OPTION_TEXT, &s.operand,
          "A|B|C|C_atom  of the tiled MMA; C_atom: the smallest copy that can retile C"},
         {"tensor", OPTION_TEXT, &s.tensor,
          "LAYOUT  what a thread has of this tensor: partitions, retiled fragment"},
         {"thread", OPTION_INT, &s.thread, "T  that thread (default 0)"},
         {"fragment", OPTION_TEXT, &s.fragment,
          "LAYOUT  what to retile (default the tiled MMA's fragment of the tensor)"},
         {"banks", OPTION_FLAG, &s.banks,
          "the bank conflicts of the tiled copy in the tensor, if it is in shared memory"},
         {"latex", OPTION_FLAG, &s.latex, "draw C, A and B, or a copy's source and destination, with TikZ"},
         {"svg", OPTION_FLAG, &s.svg, "draw them for a browser"},
         {"bits", OPTION_INT, &s.bits,
          "N  of a value of a copy, when it is drawn or tiled (default 16, or the tiled MMA's operand's)"},
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
    if (words > 1)
        return command_fail("atom", "expected at most one NAME (try --help)"), COMMAND_USAGE;
    char *word = words == 1 ? argv[1] : NULL;
    bool  script = word != NULL && (strcmp(word, "-") == 0 || atom_script_is(word));
    return script ? run_script(&s, word) : show_word(&s, word);
}
