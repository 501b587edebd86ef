/* parse.c - the PTX parser: the tree of each construct, and the line and words of each error.
 *
 *   parse              compare the parser's results for the texts in tests/emu/ptx/cases with the recorded ones
 *   parse --update     record the present results
 *
 * A file of cases has sections.  A case is one line, `text => result` (see unescape), or lines of text followed
 * by lines of the result, each of which begins with `> `.  The result is the error or the tree, see
 * dump_module.  The section says what the text is:
 *
 *   [text]         the whole PTX
 *   [module]       the text after the header; it begins on line 4
 *   [kernel]       the body of a kernel, on line 5
 *   [source]       the second operand of an instruction; the result is that operand
 *   [instruction]  an instruction; the result is ptx_instruction_text of it */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <time.h>

#include "tools/emu/ptx/ptx.h"
#include "tests/support/unit.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if !defined(SANITIZED) && defined(__GLIBC__)
#define CAN_FAIL_MEMORY 1
/* glibc's calloc under our name, so that the allocation to which `fail_at` counts down fails. */
extern void *__libc_calloc(size_t count, size_t size);
static long  fail_at = -1;
void        *calloc(size_t count, size_t size)
{
    return fail_at >= 0 && fail_at-- == 0 ? NULL : __libc_calloc(count, size);
}
#else
#define CAN_FAIL_MEMORY 0
static long fail_at = -1;
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HEADER       ".version 9.0\n.target sm_90a\n.address_size 64\n" /* the text after it is on line 4 */

/* ---- the tree as text ---------------------------------------------------------------------------------- */
static FILE *out;

static void dump_flag(bool is_set, const char *name)
{
    if (is_set)
        fprintf(out, " %s", name);
}

static void dump_number(const char *name, uint64_t value, uint64_t usual)
{
    if (value != usual)
        fprintf(out, " %s %llu", name, (unsigned long long)value);
}

static void dump_dimensions(const char *name, const unsigned int size[PTX_DIMENSIONS])
{
    if (size[0] != 0)
        fprintf(out, " %s %ux%ux%u", name, size[0], size[1], size[2]);
}

static void dump_relocation(const struct ptx_relocation *r)
{
    fprintf(out, ", at %llu %u bytes of %s%s%s%+lld", (unsigned long long)r->offset, r->bytes,
            r->generic ? "generic " : "", r->symbol->kind == PTX_FUNCTION ? "function " : "", r->symbol->name,
            (long long)r->addend);
    dump_number(">>", r->shift, 0);
}

/* Writes what a symbol is; an operand's reference to it has only its name and kind. */
static void dump_symbol(const struct ptx_symbol *s)
{
    static const char *const spaces[] = {"",        ".reg",    ".param", ".local",
                                         ".shared", ".global", ".const", ".tex"};
    fprintf(out, "%s .%s %s:", spaces[s->space], ptx_type_name(s->type), s->name);
    dump_number("vector", s->vector, 1);
    dump_number("count", s->count, 1);
    if (s->kind == PTX_REGISTER)
        fprintf(out, " first %u", s->first);
    else
        fprintf(out, " bytes %llu align %u", (unsigned long long)s->bytes, s->align);
    dump_flag(s->is_array, "array");
    dump_flag(s->is_extern, "extern");
    dump_flag(s->is_visible, "visible");
    dump_flag(s->is_weak, "weak");
    dump_flag(s->is_common, "common");
    fprintf(out, " line %u", s->place.line);
    if (s->init != NULL)
        fprintf(out, ", init ");
    for (uint64_t i = 0; s->init != NULL && i < s->bytes; i++)
        fprintf(out, "%s%02x", i > 0 && i % (ptx_type_bits(s->type) / 8) == 0 ? " " : "", s->init[i]);
    for (unsigned int i = 0; i < s->relocation_count; i++)
        dump_relocation(&s->relocations[i]);
}

static void dump_symbols(const char *what, struct ptx_symbol *const *list, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        fputs(i == 0 ? what : " | ", out);
        dump_symbol(list[i]);
    }
    fputs(count > 0 ? "\n" : "", out);
}

static void dump_reference(const struct ptx_symbol *s)
{
    static const char *const kinds[] = {"register", "variable", "label", "function", "prototype", "targets"};
    fprintf(out, "%s %s", kinds[s->kind], s->name);
    if (s->kind == PTX_VARIABLE)
        fprintf(out, " of %llu bytes", (unsigned long long)s->bytes);
    if (s->kind == PTX_LABEL)
        fprintf(out, " at %u", s->target);
    if (s->kind == PTX_PROTOTYPE) {
        fprintf(out, ":");
        dump_flag(s->function->is_noreturn, "noreturn");
        for (unsigned int i = 0; i < s->function->result_count; i++)
            fprintf(out, " result of %llu", (unsigned long long)s->function->results[i]->bytes);
        for (unsigned int i = 0; i < s->function->parameter_count; i++)
            fprintf(out, " parameter of %llu", (unsigned long long)s->function->parameters[i]->bytes);
    }
    for (unsigned int i = 0; s->kind == PTX_TARGETS && i < s->target_count; i++) {
        fputs(i == 0 ? ": " : ", ", out);
        dump_reference(s->targets[i]);
    }
}

static void dump_operand(const struct ptx_operand *o);
static void dump_items(const struct ptx_operand *o, const char *between)
{
    for (unsigned int i = 0; i < o->count; i++) {
        fputs(i > 0 ? between : "", out);
        dump_operand(&o->items[i]);
    }
}

static void dump_operand(const struct ptx_operand *o)
{
    static const char *const brackets[] = {"", "", "", "", "", "", "[]", "{}", "||", "()", ""};
    const char              *around = brackets[o->kind];
    fputs(o->negated ? "not " : "", out);
    if (*around != '\0') {
        fputc(around[0], out);
        dump_items(o, ", ");
        if (o->kind == PTX_OP_ADDRESS)
            fprintf(out, " %+lld", (long long)o->integer);
        fputc(around[1], out);
    } else if (o->kind == PTX_OP_REGISTER)
        fprintf(out, "%s #%u", o->symbol->name, o->index);
    else if (o->kind == PTX_OP_INTEGER)
        fprintf(out, "%lld%s", (long long)o->integer, o->unsigned_literal ? "U" : "");
    else if (o->kind == PTX_OP_F32 || o->kind == PTX_OP_F64)
        fprintf(out, o->kind == PTX_OP_F32 ? "0f%08llx" : "0d%016llx", (unsigned long long)o->integer);
    else if (o->kind == PTX_OP_SPECIAL)
        fprintf(out, "special %s", o->name);
    else if (o->kind == PTX_OP_SINK)
        fputc('_', out);
    else {
        dump_reference(o->symbol);
        if (o->integer != 0)
            fprintf(out, " %+lld", (long long)o->integer);
    }
    if (o->component != 0)
        fprintf(out, ".%c", o->component);
}

static void dump_instruction(const struct ptx_module *m, const struct ptx_instruction *in)
{
    char place[256];
    fprintf(out, "  %u: ", in->place.line);
    if (in->guarded)
        fprintf(out, "if %s#%u ", in->guard_negated ? "not " : "", in->guard);
    fputs(in->opcode, out);
    for (unsigned int i = 0; i < in->modifier_count; i++)
        fprintf(out, " %s", in->modifiers[i]);
    for (unsigned int i = 0; i < in->operand_count; i++) {
        fputs(i == 0 ? "; " : ", ", out);
        dump_operand(&in->operands[i]);
    }
    if (in->place.file != 0) {
        fprintf(out, " from %s", ptx_place_text(m, &in->place, place, sizeof place));
        dump_number("caller", in->place.caller, 0);
    }
    fputc('\n', out);
}

static void dump_function(const struct ptx_module *m, const struct ptx_function *f)
{
    fprintf(out, "%s %s:", f->is_entry ? "entry" : "func", f->name);
    dump_flag(!f->has_body, "declared");
    dump_flag(f->is_extern, "extern");
    dump_flag(f->is_visible, "visible");
    dump_flag(f->is_weak, "weak");
    dump_flag(f->is_noreturn, "noreturn");
    dump_flag(f->explicit_cluster, "explicit_cluster");
    dump_dimensions("max_threads", f->max_threads);
    dump_dimensions("required_threads", f->required_threads);
    dump_dimensions("required_cluster", f->required_cluster);
    dump_number("max_cluster_rank", f->max_cluster_rank, 0);
    dump_number("min_ctas", f->min_ctas, 0);
    dump_number("max_registers", f->max_registers, 0);
    dump_number("registers", f->register_count, 0);
    fprintf(out, " line %u\n", f->place.line);
    dump_symbols("  results ", f->results, f->result_count);
    dump_symbols("  parameters ", f->parameters, f->parameter_count);
    dump_symbols("  ", f->registers, f->register_symbols);
    dump_symbols("  ", f->variables, f->variable_count);
    for (unsigned int i = 0; i < f->label_count; i++)
        fprintf(out, "%s%s at %u", i == 0 ? "  labels " : ", ", f->labels[i]->name, f->labels[i]->target);
    fputs(f->label_count > 0 ? "\n" : "", out);
    for (unsigned int i = 0; i < m->function_count && m->functions[i] != f; i++)
        if (f->has_body && f->code == m->functions[i]->code) {
            fprintf(out, "  the code of %s\n", m->functions[i]->name);
            return;
        }
    for (unsigned int i = 0; i < f->code_count; i++)
        dump_instruction(m, &f->code[i]);
}

/* Writes one line for each symbol, function and instruction, with the attributes that are not the usual ones.
 * Operands: registers with their number, references with the kind of what they name. */
static void dump_module(const struct ptx_module *m, bool header)
{
    const char suffix[] = {m->target_suffix, '\0'};
    if (header)
        fprintf(out, "version %d target %d%s address_size %u\n", m->version, m->target, suffix,
                m->address_size);
    for (unsigned int i = 1; i < m->file_count; i++)
        if (m->files[i] != NULL)
            fprintf(out, "file %u %s\n", i, m->files[i]);
    if (m->file_count > 1)
        fprintf(out, "files %u inlined %u\n", m->file_count, m->inlined_count);
    for (unsigned int i = 0; i < m->variable_count; i++)
        dump_symbols("", &m->variables[i], 1);
    for (unsigned int i = 0; i < m->function_count; i++)
        dump_function(m, m->functions[i]);
}

/* ---- cases --------------------------------------------------------------------------------------------- */
static bool     update;
static char     section[32];
static unsigned case_count, wrong_count;

/* Returns the whole PTX, which the caller frees. */
static char *whole_text(const char *text)
{
    static const char declarations[] =
        ".shared .u32 sh[8]; .global .u32 arr[9]; .global .texref tx; .global .samplerref sm;"
        " .func (.param .b32 r) f(.param .b32 a, .param .b32 b); .func g();";
    const bool is_source = strcmp(section, "source") == 0;
    const bool declares = is_source || strcmp(section, "instruction") == 0;
    char      *whole = NULL;
    int        bytes;
    if (strcmp(section, "text") == 0)
        bytes = asprintf(&whole, "%s", text);
    else if (strcmp(section, "module") == 0)
        bytes = asprintf(&whole, HEADER "%s", text);
    else
        bytes = asprintf(&whole,
                         HEADER "%s\n.visible .entry k(.param .u64 a) { .reg .pred %%p<4>; .reg .b32 %%i<8>; "
                                ".reg .b64 %%d<4>; .reg .f32 %%f<8>; %s%s%s }\n",
                         declares ? declarations : "", is_source ? "mov.u64 %d0, " : "", text,
                         is_source ? ";" : "");
    assert_true(bytes >= 0);
    return whole;
}

static const struct ptx_function *function(const struct ptx_module *m, const char *name)
{
    for (unsigned int i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i]->name, name) == 0)
            return m->functions[i];
    fail_msg("no function '%s'", name);
    return NULL;
}

/* Returns the parser's result for the text: the error, or what the section asks for. */
static char *result_of(const char *text)
{
    char               error[256] = "", line[1024], *result;
    size_t             bytes;
    char              *whole = whole_text(text);
    struct ptx_module *m = ptx_parse(whole, strlen(whole), error, sizeof error);
    out = open_memstream(&result, &bytes);
    if (m == NULL)
        fprintf(out, "%s\n", error);
    else if (strcmp(section, "source") == 0) {
        dump_operand(&function(m, "k")->code[0].operands[1]);
        fputc('\n', out);
    } else if (strcmp(section, "instruction") == 0)
        fprintf(out, "%s\n", ptx_instruction_text(function(m, "k")->code, line, sizeof line));
    else
        dump_module(m, strcmp(section, "text") == 0);
    fclose(out);
    ptx_free(m);
    free(whole);
    return result;
}

static void print_result(FILE *to, const char *result)
{
    for (const char *end; *result != '\0'; result = end + 1) {
        end = strchr(result, '\n');
        fprintf(to, "> %.*s\n", (int)(end - result), result);
    }
}

/* Checks one case.  `written`: the text as it is in the file.  `to`: the new file, or NULL. */
static void check_case(const char *path, FILE *to, const char *written, const char *text, const char *want)
{
    char      *got = result_of(text);
    const bool is_line = strchr(written, '\n') == NULL;
    if (to != NULL && is_line) {
        fprintf(to, "%s => ", written);
        for (const char *c = got; c[0] != '\0' && c[1] != '\0'; c++)
            fprintf(to, *c == '\n' ? "\\n" : "%c", *c);
        fputc('\n', to);
    } else if (to != NULL) {
        fputs(written, to);
        print_result(to, got);
    } else if (strcmp(got, want) != 0 && wrong_count++ < 20)
        print_error("%s, [%s]\n%s\n  got:\n%s  wanted:\n%s\n", path, section, written, got, want);
    case_count++;
    free(got);
}

/* Reads a case in one line: \n \r \t are as in C, and \*5{text} is the text five times.  The caller frees
 * it. */
static char *unescape(const char *from)
{
    char  *result;
    size_t bytes;
    FILE  *to = open_memstream(&result, &bytes);
    for (; *from != '\0'; from++) {
        const char *escape = *from == '\\' ? strchr("nrt*", from[1]) : NULL, *begin;
        if (escape == NULL || from[1] == '\0')
            fputc(*from, to);
        else if (*++from != '*')
            fputc("\n\r\t"[strchr("nrt", *from) - "nrt"], to);
        else {
            long times = strtol(from + 1, NULL, 10);
            begin = strchr(from, '{') + 1;
            from = begin + strcspn(begin + 1, "}") + 1;
            while (times-- > 0)
                fwrite(begin, 1, (size_t)(from - begin), to);
        }
    }
    fclose(to);
    return result;
}

static void check_line(const char *path, FILE *to, char *line)
{
    char *arrow = strstr(line, " => "), *text, *want, result[4096];
    *arrow = '\0';
    snprintf(result, sizeof result, "%s\n", arrow + 4);
    text = unescape(line);
    want = unescape(result);
    check_case(path, to, line, text, want);
    free(text);
    free(want);
}

static void check_file(const char *path, FILE *to, char *bytes)
{
    static char text[32768], want[32768];
    *text = *want = '\0';
    for (char *line = bytes, *end = bytes; end != NULL; line = end + 1) {
        const bool is_result = strncmp(line, "> ", 2) == 0;
        end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        const bool is_line = strstr(line, " => ") != NULL, is_section = line[0] == '[' && line[1] != '%';
        if (*text != '\0' &&
            (end == NULL || is_line || is_section || *line == '#' || (*want != '\0' && !is_result))) {
            check_case(path, to, text, text, want);
            *text = *want = '\0';
        }
        if (end == NULL)
            break;
        if (is_line)
            check_line(path, to, line);
        else if (is_section || *line == '#') {
            if (is_section)
                snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
            if (to != NULL)
                fprintf(to, "%s\n", line);
        } else
            strcat(strcat(is_result ? want : text, line + (is_result ? 2 : 0)), "\n");
    }
}

static int is_text_file(const struct dirent *entry) { return strstr(entry->d_name, ".txt") != NULL; }

TEST(test_cases)
{
    static const char folder[] = "tests/emu/ptx/cases";
    struct dirent   **names;
    const int         count = scandir(folder, &names, is_text_file, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        static char bytes[1 << 17];
        char        path[512];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        free(names[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        bytes[fread(bytes, 1, sizeof bytes - 1, file)] = '\0';
        fclose(file);
        FILE *to = update ? fopen(path, "w") : NULL;
        check_file(path, to, bytes);
        if (to != NULL)
            fclose(to);
    }
    free(names);
    print_message("%u cases\n", case_count);
    assert_int_equal(wrong_count, 0);
    assert_true(case_count > 280);
}

/* ---- what a file of cases cannot say ------------------------------------------------------------------- */
TEST(test_types)
{
    assert_int_equal(ptx_type_bits(PTX_b128), 128);
    assert_int_equal(ptx_type_bits(PTX_pred), 1);
    assert_int_equal(ptx_type_bits(PTX_NO_TYPE), 0);
    assert_int_equal(ptx_type_bits(PTX_TYPE_COUNT), 0);
    assert_int_equal(ptx_type_find("bf16x2"), PTX_bf16x2);
    assert_int_equal(ptx_type_find("e4m3"), PTX_NO_TYPE);
    assert_int_equal(ptx_type_find(""), PTX_NO_TYPE);
    for (int i = 1; i < PTX_TYPE_COUNT; i++)
        assert_int_equal(ptx_type_find(ptx_type_name((enum ptx_type)i)), i);
}

TEST(test_memory)
{
    struct ptx_memory *memory = ptx_memory_new();
    unsigned char     *before = NULL;
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 2 + 1) {
        unsigned char *p = (unsigned char *)ptx_alloc(memory, bytes, 1);
        assert_non_null(p);
        assert_ptr_not_equal(p, before);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, bytes);
        before = p;
    }
    assert_null(ptx_alloc(memory, SIZE_MAX, 2));
    assert_null(ptx_alloc(memory, SIZE_MAX / 2, 2));
    assert_null(ptx_alloc(memory, SIZE_MAX, 1));
    ptx_memory_free(memory);
    ptx_memory_free(NULL);
    ptx_free(NULL);
}

/* Buffers that are too small are filled to their end. */
TEST(test_small_buffers)
{
    static const char text[] = HEADER
        ".entry k() {\n.loc 1 10 4\nadd.u32 1, 2, 3; }\n.file 1 \"kernel/a.ptx\"\n";
    char               small[8], error[256] = "";
    struct ptx_module *m = ptx_parse(text, sizeof text - 1, error, sizeof error);
    assert_string_equal(error, "");
    const struct ptx_instruction *in = function(m, "k")->code;
    assert_string_equal(ptx_instruction_text(in, small, sizeof small), "add.u32");
    assert_string_equal(ptx_instruction_text(in, small, 1), "");
    assert_string_equal(ptx_place_text(m, &in->place, small, 7), "kernel");
    ptx_free(m);
}

/* 1.5 is read as 1.5 also in a locale with a decimal comma. */
TEST(test_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char              *found = NULL;
    for (size_t i = 0; i < COUNT(names) && found == NULL; i++)
        found = setlocale(LC_ALL, names[i]);
    if (found == NULL) {
        print_message("SKIP: no locale with a decimal comma is installed\n");
        skip();
    }
    snprintf(section, sizeof section, "source");
    char *result = result_of("1.5");
    setlocale(LC_ALL, "C");
    assert_string_equal(result, "0d3ff8000000000000\n");
    free(result);
}

TEST(test_text)
{
    char               error[16];
    struct ptx_module *m = ptx_parse(HEADER ".entry k() { ret; }\0", sizeof HEADER ".entry k() { ret; }\0",
                                     error, sizeof error);
    assert_non_null(m); /* the size may include the end of a C string */
    ptx_free(m);
    assert_null(
        ptx_parse(HEADER "\0.entry k() { ret; }", sizeof HEADER ".entry k() { ret; }", error, sizeof error));
    assert_string_equal(error, "line 4: a chara"); /* cut to the buffer, and terminated */
    assert_null(ptx_parse(HEADER "x", sizeof HEADER, NULL, 0));
    m = ptx_parse(HEADER "garbage", sizeof HEADER - 1, error, sizeof error); /* only that many bytes are read */
    assert_non_null(m);
    ptx_free(m);
}

/* Makes many instructions with as many names. */
static char *large_text(int lines, size_t *bytes)
{
    enum { LINE = 80 };
    char  *text = (char *)malloc((size_t)lines * LINE + 1000);
    size_t at = (size_t)sprintf(text, HEADER ".entry k() { .reg .b32 %%r<%d>;\n", lines);
    for (int i = 0; i < lines; i++) {
        int other = lines - 1 - i;
        at += (size_t)snprintf(text + at, LINE, "L%d: add.s32 %%r%d, %%r%d, %d; bra L%d;\n", i, i, other, i,
                               other);
    }
    *bytes = at + (size_t)sprintf(text + at, "}\n");
    return text;
}

/* This test fails if the time grows faster than the text. */
TEST(test_speed)
{
    enum { LINES = 100000 };
    char               error[256] = "";
    size_t             bytes;
    char              *text = large_text(LINES, &bytes);
    clock_t            start = clock();
    struct ptx_module *m = ptx_parse(text, bytes, error, sizeof error);
    double             seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_string_equal(error, "");
    assert_int_equal(function(m, "k")->code_count, 2 * LINES);
    assert_int_equal(function(m, "k")->code[1].operands[0].symbol->target, 2 * (LINES - 1));
    print_message("parsed %d instructions in %.0f ms\n", 2 * LINES, 1e3 * seconds);
    assert_true(seconds < 10);
    ptx_free(m);
    free(text);
}

TEST(test_out_of_memory)
{
    size_t bytes;
    char  *text = large_text(5000, &bytes), error[64];
    long   failures = 0;
    if (!CAN_FAIL_MEMORY) {
        free(text);
        print_message("SKIP: allocations cannot be made to fail here\n");
        skip();
    }
    for (struct ptx_module *m = NULL; m == NULL; failures++) {
        strcpy(error, "");
        fail_at = failures;
        m = ptx_parse(text, bytes, error, sizeof error);
        fail_at = -1;
        assert_string_equal(error, m ? "" : "out of memory");
        ptx_free(m);
        assert_true(failures < 1000);
    }
    print_message("%ld allocations failed in turn\n", failures - 1);
    assert_true(failures > 10);
    free(text);
}

int main(int argc, char **argv)
{
    update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return unit_run(NULL, NULL);
}
