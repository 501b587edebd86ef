/* recorded.c - compares PTX instructions of the emulated GPU with recorded digests of their results.
 *
 *   recorded [FILE...]                 compare (the default: every file of `files` below)
 *   recorded --update FILE...          write the present digests into the files; digests of a GPU stay
 *   recorded --show TEXT [FILE...]     print operands and results of the instructions that contain TEXT
 *
 * A FILE has sections.  Each line that does not begin with a blank is a template of instructions; the lines A
 * FILE has sections.  Each line that does not begin with a blank is a template of instructions; the lines that
 * begin with a blank hold a digest for each of them, or "-" if the instruction must be refused.
 *   # comment
 *   let INT u16:s/u32:r/u64:d          a name for a list of alternatives
 *   [carry target=sm_75]               a section: see section_option
 *   <add/sub>.<INT> %o$2, %a$2, %b$2;  one instruction for each combination of the groups' alternatives;
 *                                      $2 is the second field (behind the colon) of the second group's
 *                                      alternative, @2 its first
 *   <0..255>                           the numbers of this range
 *   <~a/b/c>                           is not combined: the instruction's number chooses one alternative
 *
 * Integer sections: %as %ar %ad are the low 16, 32, 64 bits of the operand a, and %ap its bit 0; likewise b,
 * c, d.  The result goes to %os, %or, %od, or to %op (and %oq): the first of these names in the text
 * decides.  Temporaries: %wb %xb %yb %zb (8 bits), %xs %ys, %xr %yr, %xd %yd, %xp %yp, %xq %yq (128
 * bits).  All instructions of a section run in one kernel, first in all lanes, then twice under a guard that
 * leaves some lanes out: these keep what the result held before.  The digest covers all three runs.
 * Float sections: an instruction follows its operands' kinds (see float_inputs.h) and the bytes of a result. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include "float_run.h"

enum {
    ELEMENTS = 2048,
    OPERANDS = 4,
    BLOCK = 64,
    KERNEL_BYTES = 1 << 20,
    MOST_LINES = 1000,
    MOST_CASES = 3000,
    MOST_SECTION_CASES = 700,
    MOST_GROUPS = 12,
    MOST_LETS = 32,
    MOST_SECTIONS = 32,
    MOST_ALTERNATIVES = 256
};
#define BEFORE 0xa5b6c7d8e9fa0b1cull /* what results hold before the instruction */

static const char *const files[] = {"tests/data/emu_int.txt", "tests/data/emu_select.txt",
                                    "tests/data/emu_warp.txt", "tests/data/emu_float.txt"};
static const char       *show; /* the TEXT of --show */
static bool              update;
static char              file_bytes[1 << 18];

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* A copy that lasts until the end of the program. */
static char *keep(const char *text)
{
    static char   pool[1 << 20];
    static size_t used;
    const size_t  bytes = strlen(text) + 1;
    if (used + bytes > sizeof pool)
        die("the templates are too large");
    used += bytes;
    return (char *)memcpy(pool + used - bytes, text, bytes);
}

struct section {
    char target[16], version[8];
    int  sm;
    bool refused;          /* every instruction must be refused */
    bool is_float, is_gpu; /* operands of float_inputs.h; digests that a GPU computed */
    bool reads_left_out;   /* excluded lanes are read, which the emulator would otherwise report */
    void (*adjust)(void);  /* changes operands */
};
struct instruction {
    const char           *text, *template_line;
    char                  kinds[4], want[20], got[20];
    int                   bytes;
    const struct section *section;
};
static struct instruction cases[MOST_CASES];
static unsigned int       case_count;

/* ---- operands ------------------------------------------------------------------------------------------ */
static uint64_t operands[ELEMENTS][OPERANDS];

/* clang-format off */
static const uint64_t edges[] = {
    0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 0x7fff, 0x8000, 0x8001, 0xffff,
    0x10000, 0x7c00, 0x7c01, 0xfc00, 0x3c00, 0x0400, 0x8400, 0x03ff7f80, 0x7f817f80, 0xff80ff81, 0x7fc00000,
    0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0x7f800000, 0x7f800001, 0xff800000, 0x3f800000,
    0xbf800000, 0x007fffff, 0x807fffff, 0x00800000, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
    0x8000000000000001, 0xffffffffffffffff, 0xfffffffffffffffe, 0xffffffff80000000, 0xffffffff00000000,
    0x3ff0000000000000, 0x7ff0000000000000, 0x7ff0000000000001, 0xfff0000000000000, 0x000fffffffffffff};
/* clang-format on */
enum { EDGES = sizeof edges / sizeof *edges };

static uint64_t seed;
static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}
static int below(int n) { return (int)((random_bits() >> 33) % (uint64_t)n); }

static uint64_t random_operand(void)
{
    const uint64_t v = random_bits();
    switch (below(4)) {
    case 0:
        return edges[below(EDGES)];
    case 1:
        return v >> below(64);
    case 2:
        return v & 63;
    default:
        return v;
    }
}

static void fill_operands(void)
{
    seed = 20261120;
    for (int i = 0; i < ELEMENTS; i++) {
        for (int k = 0; k < OPERANDS; k++)
            operands[i][k] = random_operand();
        if (below(8) == 0)
            operands[i][1] = operands[i][0];
        if (i < 2 * EDGES) { /* each edge with itself and its neighbour */
            operands[i][0] = edges[i / 2];
            operands[i][1] = edges[(i / 2 + i % 2) % EDGES];
        }
    }
}

/* Makes all d equal in some warps, and two values in others. */
static void equal_in_warps(void)
{
    for (int i = 0; i < ELEMENTS; i++) {
        const int warp = i / 32;
        if (warp % 4 == 0)
            operands[i][3] = operands[warp * 32][3];
        else if (warp % 4 == 1)
            operands[i][3] = operands[warp * 32 + i * 7 % 3 % 2][3];
    }
}

static void few_nans(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (i / 32 % 2 == 0)
            operands[i][0] = i % 97 == 5  ? 0x7f800001
                             : i % 5 == 0 ? (uint64_t)(i % 2) << 31
                                          : operands[i][0] & 0xbfffffff;
}

/* ---- templates ----------------------------------------------------------------------------------------- */
static struct {
    const char *name, *list;
} lets[MOST_LETS];
static int let_count;

struct group {
    char *text[MOST_ALTERNATIVES], *field[MOST_ALTERNATIVES];
    int   count, chosen;
    bool  is_turn;
};
struct pattern {
    const char  *literal[MOST_GROUPS + 1]; /* the text before each group, and after the last */
    struct group groups[MOST_GROUPS];
    int          group_count;
};

static void add_alternatives(struct group *g, const char *list)
{
    char *copy = keep(list), *next = copy;
    while (next != NULL) {
        char *word = next, *field;
        int   first, last, let = 0;
        next = strchr(word, '/');
        if (next != NULL)
            *next++ = '\0';
        while (let < let_count && strcmp(lets[let].name, word) != 0)
            let++;
        if (let < let_count) {
            add_alternatives(g, lets[let].list);
            continue;
        }
        if (sscanf(word, "%d..%d", &first, &last) != 2)
            first = last = 0;
        for (int value = first; value <= last; value++) {
            if (g->count == MOST_ALTERNATIVES)
                die("more than %d alternatives: %s", MOST_ALTERNATIVES, list);
            field = strchr(word, ':');
            g->field[g->count] = field != NULL ? field + 1 : word;
            if (first < last) {
                char number[12];
                snprintf(number, sizeof number, "%d", value);
                word = keep(number);
            } else if (field != NULL) {
                *field = '\0';
            }
            g->text[g->count++] = word;
        }
    }
}

static void split_pattern(struct pattern *t, const char *line)
{
    char *at = keep(line), *open, *close;
    memset(t, 0, sizeof *t);
    for (; (open = strchr(at, '<')) != NULL; at = close + 1) {
        struct group *g = &t->groups[t->group_count];
        close = strchr(open, '>');
        if (close == NULL || t->group_count == MOST_GROUPS)
            die("a wrong line: %s", line);
        *open = *close = '\0';
        t->literal[t->group_count++] = at;
        g->is_turn = open[1] == '~';
        add_alternatives(g, open + 1 + g->is_turn);
    }
    t->literal[t->group_count] = at;
}

/* Replaces each $N and @N by the fields of group N's chosen alternative. */
static const char *resolve_fields(const struct pattern *t, const char *text)
{
    char   out[512];
    size_t bytes = 0;
    for (; *text != '\0'; text++)
        if ((*text == '$' || *text == '@') && isdigit((unsigned char)text[1])) {
            const bool          second = *text == '$';
            const struct group *g = &t->groups[*++text - '1'];
            bytes += (size_t)snprintf(out + bytes, sizeof out - bytes, "%s",
                                      (second ? g->field : g->text)[g->chosen]);
        } else {
            out[bytes++] = *text;
        }
    out[bytes] = '\0';
    return keep(out);
}

static const char *instance(struct pattern *t, unsigned int number)
{
    unsigned int turn = number * 2654435761u >> 16; /* spreads the numbers over the turns */
    char         out[512] = "";
    for (int k = t->group_count - 1; k >= 0; k--) {
        struct group *g = &t->groups[k];
        unsigned int *from = g->is_turn ? &turn : &number;
        g->chosen = (int)(*from % (unsigned int)g->count);
        *from /= (unsigned int)g->count;
    }
    for (int k = 0; k <= t->group_count; k++) {
        strcat(out, t->literal[k]);
        if (k < t->group_count)
            strcat(out, t->groups[k].text[t->groups[k].chosen]);
    }
    return resolve_fields(t, out);
}

static void add_cases(const char *line, const struct section *section)
{
    static struct pattern t;
    unsigned int          count = 1;
    split_pattern(&t, line);
    for (int k = 0; k < t.group_count; k++)
        count *= t.groups[k].is_turn ? 1 : (unsigned int)t.groups[k].count;
    for (unsigned int i = 0; i < count; i++) {
        struct instruction *c = &cases[case_count];
        if (case_count++ == MOST_CASES)
            die("more than %d instructions", MOST_CASES);
        *c = (struct instruction){.text = instance(&t, i), .template_line = line, .section = section};
        if (section->is_float) { /* "ff4 add.f32 ...": the kinds of the operands, and the bytes of a result */
            const size_t length = strcspn(c->text, " ");
            snprintf(c->kinds, sizeof c->kinds, "%.*s", (int)length - 1, c->text);
            c->bytes = c->text[length - 1] - '0';
            c->text += length + 1;
        }
    }
}

/* ---- the kernel of a section --------------------------------------------------------------------------- */
static char   kernel[KERNEL_BYTES];
static size_t kernel_bytes;

static void append(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void append(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kernel_bytes += (size_t)vsnprintf(kernel + kernel_bytes, KERNEL_BYTES - kernel_bytes, format, arguments);
    va_end(arguments);
    if (kernel_bytes >= KERNEL_BYTES)
        die("a kernel of more than %d bytes", KERNEL_BYTES);
}

/* The class of the result: 's', 'r', 'd' or 'p'. */
static char result_class(const char *text)
{
    const char *o = strstr(text, "%o");
    return o != NULL ? o[2] : 0;
}

static void append_case(const char *text, size_t offset)
{
    const char class_ = result_class(text);
    append(
        "mov.b64 %%od, 0x%llx; mov.b32 %%or, 0x%x; mov.b16 %%os, 0x%x; mov.pred %%op, 0; mov.pred %%oq, 0;\n",
        BEFORE, (unsigned int)BEFORE, (unsigned int)(BEFORE & 0xffff));
    while (*text != '\0') { /* put each statement under the guard */
        const size_t length = strcspn(text, ";");
        append("@%%g %.*s;\n", (int)length, text);
        text += length + (text[length] == ';');
        text += strspn(text, " ");
    }
    if (class_ == 's') /* the bits above 16 would show */
        append("mov.b32 %%zr, {%%os, 0}; st.global.b32 [%%out+%zu], %%zr;\n", offset);
    else if (class_ == 'r')
        append("st.global.b32 [%%out+%zu], %%or;\n", offset);
    else if (class_ == 'd')
        append("st.global.b64 [%%out+%zu], %%od;\n", offset);
    else
        append("selp.b32 %%zr, 1, 0, %%op; @%%oq or.b32 %%zr, %%zr, 2; st.global.b32 [%%out+%zu], %%zr;\n",
               offset);
}

static void build_kernel(const struct instruction *const *list, unsigned int count)
{
    const struct section *s = list[0]->section;
    kernel_bytes = 0;
    append(".version %s\n.target %s\n.address_size 64\n"
           ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 leave) {\n"
           ".reg .b16 %%as, %%bs, %%cs, %%ds, %%os, %%xs, %%ys;\n"
           ".reg .b32 %%ar, %%br, %%cr, %%dr, %%or, %%xr, %%yr, %%zr;\n"
           ".reg .b64 %%ad, %%bd, %%cd, %%dd, %%od, %%xd, %%yd, %%in, %%out;\n"
           ".reg .pred %%ap, %%bp, %%cp, %%dp, %%op, %%oq, %%xp, %%yp, %%g;\n"
           ".reg .b8 %%wb, %%xb, %%yb, %%zb; .reg .b128 %%xq, %%yq;\n"
           "ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; ld.param.u32 %%yr, [leave];\n"
           "mov.u32 %%xr, %%ctaid.x; mov.u32 %%zr, %%ntid.x; mul.lo.u32 %%xr, %%xr, %%zr;\n"
           "mov.u32 %%zr, %%tid.x; add.u32 %%xr, %%xr, %%zr;\n"
           "and.b32 %%zr, %%zr, %%yr; setp.eq.u32 %%g, %%zr, 0;\n"
           "mul.wide.u32 %%xd, %%xr, 32; add.u64 %%in, %%in, %%xd;\n"
           "mul.wide.u32 %%xd, %%xr, 8; add.u64 %%out, %%out, %%xd;\n",
           s->version, s->target);
    for (int k = 0; k < OPERANDS; k++)
        append("ld.global.b64 %%%cd, [%%in+%d]; ld.global.b32 %%%cr, [%%in+%d]; ld.global.b16 %%%cs, [%%in+%d];"
               " and.b32 %%xr, %%%cr, 1; setp.ne.b32 %%%cp, %%xr, 0;\n",
               'a' + k, 8 * k, 'a' + k, 8 * k, 'a' + k, 8 * k, 'a' + k, 'a' + k);
    for (unsigned int i = 0; i < count; i++)
        append_case(list[i]->text, (size_t)i * ELEMENTS * 8);
    append("ret; }\n");
}

/* ---- running ------------------------------------------------------------------------------------------- */
static void show_results(const struct instruction *c, const uint64_t *results, uint32_t leave)
{
    for (unsigned int i = 0; i < ELEMENTS; i++)
        printf("%s  a %#llx b %#llx c %#llx d %#llx: %#llx%s\n", c->text, (unsigned long long)operands[i][0],
               (unsigned long long)operands[i][1], (unsigned long long)operands[i][2],
               (unsigned long long)operands[i][3], (unsigned long long)results[i],
               (i % BLOCK & leave) != 0 ? " (left out)" : "");
}

static void run_integers(struct instruction *const *list, unsigned int count)
{
    static const uint32_t leaves[] = {0, 5, 31};
    static uint64_t       hashes[MOST_SECTION_CASES];
    const size_t          bytes = (size_t)count * ELEMENTS * 8;
    uint64_t             *results = (uint64_t *)malloc(bytes), words[3];
    const struct section *s = list[0]->section;
    fill_operands();
    if (s->adjust != NULL)
        s->adjust();
    emu_machine(s->sm);
    if (s->reads_left_out)
        emu_test_settings.judge &= ~(unsigned int)EMU_JUDGE_UNINITIALISED;
    words[0] = emu_buffer(sizeof operands);
    words[1] = emu_buffer(bytes);
    emu_write(words[0], operands, sizeof operands);
    build_kernel((const struct instruction *const *)list, count);
    for (unsigned int i = 0; i < count; i++)
        hashes[i] = input_hash(NULL, 0);
    for (int run = 0; run < 3; run++) {
        words[2] = leaves[run];
        memset(results, 0, bytes);
        emu_write(words[1], results, bytes);
        emu_log_clear();
        const unsigned int result = emu_run(kernel, "k", ELEMENTS / BLOCK, BLOCK, 0, words, 3);
        if (result != 0 || *emu_log() != '\0')
            die("result %u\n%s", result, emu_log());
        emu_read(results, words[1], bytes);
        for (unsigned int i = 0; i < count; i++) {
            hashes[i] = input_hash_on(hashes[i], results + (size_t)i * ELEMENTS, ELEMENTS * 8);
            if (show != NULL)
                show_results(list[i], results + (size_t)i * ELEMENTS, leaves[run]);
        }
    }
    for (unsigned int i = 0; i < count; i++)
        snprintf(list[i]->got, sizeof list[i]->got, "%08x", (unsigned int)(hashes[i] >> 32 ^ hashes[i]));
    free(results);
}

static void run_float(struct instruction *c)
{
    static char filled[4];
    if (strcmp(filled, c->kinds) != 0)
        run_fill(strcpy(filled, c->kinds));
    const size_t       count = input_count(c->kinds), bytes = (size_t)c->bytes;
    const unsigned int result = run_instruction(c->section->target, c->text, c->bytes, count);
    snprintf(c->got, sizeof c->got, "-");
    if (result == 0)
        snprintf(c->got, sizeof c->got, "%016llx", (unsigned long long)input_hash(run_results, count * bytes));
    for (size_t i = 0; show != NULL && i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)run_results + i * bytes, bytes);
        printf("%s  a %#llx b %#llx c %#llx: %#llx\n", c->text, (unsigned long long)run_operands[0][i],
               (unsigned long long)run_operands[1][i], (unsigned long long)run_operands[2][i],
               (unsigned long long)value);
    }
    emu_log_clear();
}

static void run_refusal(struct instruction *c)
{
    const struct instruction *one = c;
    const uint64_t            nothing[3] = {0};
    unsigned int              result;
    emu_log_clear();
    if (c->section->is_float) {
        result = run_instruction(c->section->target, c->text, c->bytes, 256);
    } else {
        build_kernel(&one, 1);
        result = emu_run(kernel, "k", 1, 32, 0, nothing, 3);
    }
    if (show != NULL)
        printf("%s  result %u: %s\n", c->text, result, emu_log());
    snprintf(c->got, sizeof c->got, "%s",
             result == 218 && strstr(emu_log(), "line ") != NULL ? "-" : "accepted");
}

/* Runs the cases from `first` to `last`, which are of one section. */
static void run_section(unsigned int first, unsigned int last)
{
    struct instruction *list[MOST_SECTION_CASES];
    unsigned int        count = 0;
    for (unsigned int i = first; i < last; i++)
        if (show == NULL || strstr(cases[i].text, show) != NULL) {
            if (count == MOST_SECTION_CASES)
                die("more than %d instructions in a section: %s", MOST_SECTION_CASES, cases[i].text);
            list[count++] = &cases[i];
        }
    if (count == 0)
        return;
    const struct section *s = list[0]->section;
    if (s->is_float)
        run_machine(s->sm);
    else
        emu_machine(s->sm);
    for (unsigned int i = 0; i < count && (s->refused || s->is_float); i++)
        if (s->refused)
            run_refusal(list[i]);
        else
            run_float(list[i]);
    if (!s->refused && !s->is_float)
        run_integers(list, count);
}

/* ---- files --------------------------------------------------------------------------------------------- */
static void section_option(struct section *s, const char *word)
{
    if (strncmp(word, "target=", 7) == 0) {
        snprintf(s->target, sizeof s->target, "%s", word + 7);
        s->sm = atoi(s->target + 3);
    } else if (strncmp(word, "version=", 8) == 0)
        snprintf(s->version, sizeof s->version, "%s", word + 8);
    else if (strcmp(word, "refused") == 0)
        s->refused = true;
    else if (strcmp(word, "float") == 0)
        s->is_float = true;
    else if (strcmp(word, "gpu") == 0)
        s->is_gpu = true;
    else if (strcmp(word, "reads-left-out") == 0)
        s->reads_left_out = true;
    else if (strcmp(word, "equal-in-warps") == 0)
        s->adjust = equal_in_warps;
    else if (strcmp(word, "few-nans") == 0)
        s->adjust = few_nans;
    else
        die("'%s' is not an option of a section", word);
}

/* Reads a line "[name option option]". */
static unsigned int read_section(const char *line, struct section *sections, unsigned int number)
{
    char *copy = keep(line), *word = strtok(copy, "[] ");
    if (number == MOST_SECTIONS)
        die("more than %d sections", MOST_SECTIONS - 1);
    sections[number] = (struct section){.version = "8.3"};
    while ((word = strtok(NULL, "[] ")) != NULL)
        section_option(&sections[number], word);
    return number;
}

static void read_let(const char *line)
{
    char *name = keep(line + 4), *list = strchr(name, ' ');
    if (list == NULL || let_count == MOST_LETS)
        die("a wrong line: %s", line);
    *list++ = '\0';
    lets[let_count].name = name;
    lets[let_count++].list = list;
}

static void read_digests(const char *line, unsigned int *next)
{
    char *copy = keep(line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        if (*next >= case_count)
            die("more digests than instructions: %s", line);
        snprintf(cases[(*next)++].want, sizeof cases[0].want, "%s", word);
    }
}

/* Reads the file into lines and cases. */
static unsigned int read_file(const char *path, const char *lines[MOST_LINES])
{
    static struct section sections[MOST_SECTIONS];
    FILE                 *file = fopen(path, "r");
    unsigned int          count = 0, next = 0, section = 0;
    if (file == NULL)
        die("%s cannot be read", path);
    file_bytes[fread(file_bytes, 1, sizeof file_bytes - 1, file)] = '\0';
    fclose(file);
    case_count = 0;
    let_count = 0;
    for (char *line = strtok(file_bytes, "\n"), *end = line; line != NULL; line = strtok(end, "\n")) {
        end = line + strlen(line) + 1;
        if (count == MOST_LINES)
            die("%s has more than %d lines", path, MOST_LINES);
        lines[count++] = line;
        if (*line == ' ')
            read_digests(line, &next);
        else if (*line == '[')
            section = read_section(line, sections, section + 1);
        else if (strncmp(line, "let ", 4) == 0)
            read_let(line);
        else if (*line != '#') {
            next = case_count;
            add_cases(line, &sections[section]);
        }
    }
    return count;
}

static void write_digests(FILE *file, const char *template_line)
{
    int width = 0;
    for (unsigned int i = 0; i < case_count; i++) {
        const char *digest = cases[i].section->is_gpu ? cases[i].want : cases[i].got;
        if (cases[i].template_line != template_line || cases[i].section->refused)
            continue;
        if (width + (int)strlen(digest) + 1 > 110)
            width = 0;
        width += fprintf(file, "%s %s", width == 0 ? "\n" : "", digest) - (width == 0);
    }
    fputc('\n', file);
}

static void write_file(const char *path, const char *const *lines, unsigned int count)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        die("%s cannot be written", path);
    for (unsigned int i = 0; i < count; i++)
        if (*lines[i] != ' ') {
            fputs(lines[i], file);
            write_digests(file, lines[i]);
        }
    fclose(file);
}

static unsigned int compare(const char *path)
{
    unsigned int wrong = 0;
    for (unsigned int i = 0; i < case_count; i++) {
        const struct instruction *c = &cases[i];
        const char               *want = c->section->refused ? "-" : c->want;
        if (strcmp(c->got, want) == 0)
            continue;
        if (wrong++ < 40)
            fprintf(stderr, "%s: %s%s%s: digest %s, recorded %s\n", path, c->kinds, *c->kinds ? " " : "",
                    c->text, c->got, *want != '\0' ? want : "nothing");
    }
    if (wrong > 0)
        fprintf(stderr, "for operands and results: --show 'INSTRUCTION'\n");
    printf("%s: %u instructions, %u wrong\n", path, case_count, wrong);
    return wrong;
}

static unsigned int run_file(const char *path)
{
    static const char *lines[MOST_LINES];
    const unsigned int count = read_file(path, lines);
    for (unsigned int first = 0, last; first < case_count; first = last) {
        for (last = first; last < case_count; last++)
            if (cases[last].section != cases[first].section)
                break;
        run_section(first, last);
    }
    if (update)
        write_file(path, lines, count);
    return update || show != NULL ? 0 : compare(path);
}

int main(int argc, char **argv)
{
    unsigned int wrong = 0;
    int          at = 1;
    update = argc > 2 && strcmp(argv[1], "--update") == 0;
    show = argc > 2 && strcmp(argv[1], "--show") == 0 ? argv[2] : NULL;
    at += update ? 1 : show != NULL ? 2 : 0;
    if (at < argc)
        for (; at < argc; at++)
            wrong += run_file(argv[at]);
    else
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            wrong += run_file(files[i]);
    return wrong != 0;
}
