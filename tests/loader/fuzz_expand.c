/* fuzz_expand.c - the macro expander on hostile text: no crash, no hang, no broken guarantee.
 *
 * With libFuzzer (clang -DLIBFUZZER -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.):
 * tests/loader/fuzz_expand.c and all C files of loader/expand make the fuzzer.  Without it this is a program
 * that runs the files that it is given.  If none is given, it runs programs made from pieces of the language
 * (tests/support/fuzz.h). */
#include <string.h>
#include "tests/support/fuzz.h"
#include "loader/expand/expand.h"

/* Fails when a guarantee of expand.h is broken. */
#define DEMAND(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* The input is up to three files, "0" first; a line "----" ends each but the last. */
typedef struct input {
    const char *text[3];
    size_t      bytes[3];
} input;

static const char *read_input(void *context, const char *path, size_t *bytes)
{
    const input *in = (const input *)context;
    if (path[0] < '0' || path[0] > '2' || path[1])
        return NULL;
    *bytes = in->bytes[path[0] - '0'];
    return in->text[path[0] - '0'];
}

static void split(char *text, size_t size, input *in)
{
    for (int i = 0; i < 3; i++) {
        char *end = i < 2 ? (char *)memmem(text, size, "\n----\n", 6) : NULL;
        in->text[i] = text;
        in->bytes[i] = end != NULL ? (size_t)(end + 1 - text) : size;
        if (end == NULL) { /* the remaining files are empty */
            for (int k = i + 1; k < 3; k++)
                in->text[k] = text + size;
            return;
        }
        *(end + 1) = 0;
        size -= (size_t)(end + 6 - text);
        text = end + 6;
    }
}

static void check_success(const ptxpack_expansion *e)
{
    char        where[512];
    size_t      bytes = 0, line = 0;
    const char *text = ptxpack_expansion_text(e, &bytes);
    DEMAND(text && strlen(text) == bytes);
    DEMAND(ptxpack_expansion_error(e)[0] == 0);
    DEMAND(!bytes || text[bytes - 1] == '\n');
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\n' && ++line < 2000)
            DEMAND(strncmp(ptxpack_expansion_where(e, line, where, sizeof where), "0:", 2) == 0);
    DEMAND(line < 2000 || strncmp(ptxpack_expansion_where(e, line, where, sizeof where), "0:", 2) == 0);
    DEMAND(ptxpack_expansion_where(e, line + 1, where, sizeof where)[0] == 0);
}

static void check_failure(const ptxpack_expansion *e)
{
    const char *error = ptxpack_expansion_error(e);
    DEMAND(ptxpack_expansion_text(e, NULL) == NULL);
    DEMAND(error[0] == '0' && error[1] == ':' && strchr(error, '\n') == NULL);
}

static ptxpack_expansion *expand(input *in, bool line_info, ptxpack_status *status)
{
    static const ptxpack_symbol symbols[] = {{"N", 4}, {"BF16", 1}};
    ptxpack_expansion          *e = NULL;
    /* clang-format off */
    ptxpack_expand_options      options = {
        .size = sizeof options, .symbols = symbols, .symbol_count = 2, .read = read_input, .context = in,
        .line_info = line_info, .max_depth = 50, .max_output = 1 << 18, .max_ms = 2000,
    };
    /* clang-format on */
    *status = ptxpack_expand("0", &options, &e);
    DEMAND(*status == PTXPACK_OK || *status == PTXPACK_E_EXPAND);
    DEMAND(e != NULL);
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.bytes = {0}};
    char *copy = (char *)malloc(size + 1);
    if (copy == NULL)
        return 0;
    if (size)
        memcpy(copy, data, size);
    copy[size] = 0;
    split(copy, size, &in);
    for (int line_info = 0; line_info < 2; line_info++) {
        ptxpack_status     status, again;
        ptxpack_expansion *e = expand(&in, line_info, &status);
        if (status == PTXPACK_OK)
            check_success(e);
        else
            check_failure(e);
        if (line_info == 0 && status == PTXPACK_OK) { /* the same input gives the same output */
            ptxpack_expansion *second = expand(&in, false, &again);
            DEMAND(again == status &&
                   strcmp(ptxpack_expansion_text(e, NULL), ptxpack_expansion_text(second, NULL)) == 0);
            ptxpack_expansion_free(second);
        }
        ptxpack_expansion_free(e);
    }
    free(copy);
    return 0;
}

#ifndef LIBFUZZER

static const char *const pieces[] = {".macro ",
                                     ".endm\n",
                                     ".exitm\n",
                                     ".purgem ",
                                     ".rept ",
                                     ".irp ",
                                     ".irpc ",
                                     ".endr\n",
                                     ".if ",
                                     ".elseif ",
                                     ".else\n",
                                     ".endif\n",
                                     ".ifdef ",
                                     ".ifndef ",
                                     ".ifc ",
                                     ".ifnc ",
                                     ".ifb ",
                                     ".ifnb ",
                                     ".ifgt ",
                                     ".set ",
                                     ".equ ",
                                     ".include \"1\"\n",
                                     ".include \"2\"\n",
                                     ".error \"e\"\n",
                                     ".warning \"w\"\n",
                                     "M",
                                     "F",
                                     "G",
                                     " a",
                                     " b",
                                     " c",
                                     "\\a",
                                     "\\b",
                                     "\\c",
                                     "\\@",
                                     "\\()",
                                     "\\(",
                                     "\\[",
                                     "\\{i=0..3: ",
                                     "\\{j=0..",
                                     "\\i",
                                     "\\j",
                                     "]",
                                     "}",
                                     "{",
                                     "[",
                                     "(",
                                     ")",
                                     ", ",
                                     ",",
                                     " ",
                                     "\n",
                                     "\n",
                                     "\n",
                                     "\n",
                                     ":req",
                                     ":vararg",
                                     "=",
                                     "==",
                                     "\"",
                                     "\"x y\"",
                                     "'",
                                     "'a'",
                                     "\\",
                                     "&",
                                     "&a",
                                     "+",
                                     "-",
                                     "*",
                                     "/",
                                     "%",
                                     "<<",
                                     ">>",
                                     "<",
                                     "&&",
                                     "||",
                                     "!",
                                     "~",
                                     "0",
                                     "1",
                                     "2",
                                     "4",
                                     "0x",
                                     "0xff",
                                     "9223372036854775807",
                                     "N",
                                     "BF16",
                                     "%r",
                                     "$l: ",
                                     "L: ",
                                     ";",
                                     "//",
                                     "/*",
                                     "*/",
                                     "\n----\n",
                                     ".entry k {\n",
                                     "}\n",
                                     "add.s32 %a, %b;\n",
                                     ".loc",
                                     "\xff",
                                     "\r\n",
                                     ".macro M a, b, c\n",
                                     ".macro F a\n",
                                     "M 1, 2, 3\n",
                                     "F x\n",
                                     "G\n",
                                     ".if N\n",
                                     ".if 0\n",
                                     ".rept 3\n",
                                     ".irp a, 1, 2\n",
                                     ".irpc c, abc\n",
                                     "x = ",
                                     "N = N + 1\n",
                                     "F \\a-1\n",
                                     ".if \\a\n",
                                     "\\[N+\\a]",
                                     "\\{i=0..N-1: %s\\i}\n",
                                     ".set N, N-1\n"};
enum { PIECES = sizeof pieces / sizeof *pieces, MAX_TEXT = 4096 };

static size_t make(char *text)
{
    size_t size = 0;
    for (uint32_t n = 1 + draw(60); n > 0; n--) {
        const char *piece = pieces[draw(PIECES)];
        size_t      bytes = strlen(piece);
        if (size + bytes > MAX_TEXT)
            break;
        memcpy(text + size, piece, bytes);
        size += bytes;
    }
    for (uint32_t n = draw(8) ? 0 : draw(4); n > 0 && size; n--) /* sometimes a damaged byte */
        text[draw((uint32_t)size)] = (char)draw(256);
    return size;
}

int main(int argc, char **argv)
{
    static char text[MAX_TEXT];
    long        count = fuzz_begin(argc, argv, "fuzz_expand", 200000);
    for (long i = 0; i < count; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)text, make(text));
    return 0;
}
#endif
