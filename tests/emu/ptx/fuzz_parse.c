/* fuzz_parse.c - the PTX parser on hostile text: no crash, no hang, no invalid pointer in the tree.
 *
 * With libFuzzer (clang -DLIBFUZZER -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.):
 * tests/emu/ptx/fuzz_parse.c and all C files of tools/emu/ptx make the fuzzer.
 * Without it this is a program that runs the files that it is given.  If none is given, it runs texts made from
 * pieces of the language (tests/support/fuzz.h). */
#include <string.h>
#include "tests/support/fuzz.h"
#include "tools/emu/ptx/ptx.h"

/* Fails when a guarantee of ptx.h is broken. */
#define DEMAND(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* ---- what the tree guarantees -------------------------------------------------------------------------- */
static void check_place(const struct ptx_module *m, const struct ptx_place *place)
{
    char text[512];
    DEMAND(place->line > 0);
    DEMAND(place->file < m->file_count);
    DEMAND(place->caller <= m->inlined_count);
    DEMAND(ptx_place_text(m, place, text, sizeof text) == text && text[0] && strlen(text) < sizeof text);
}

static void check_variable(const struct ptx_module *m, const struct ptx_symbol *s)
{
    check_place(m, &s->place);
    DEMAND(s->kind == PTX_VARIABLE && s->name && s->space != PTX_NO_SPACE && s->type != PTX_NO_TYPE);
    DEMAND(s->align > 0 && (s->align & (s->align - 1)) == 0);
    DEMAND(s->bytes > 0 || s->is_array);
    DEMAND(s->vector == 1 || s->vector == 2 || s->vector == 4);
    if (s->init == NULL)
        DEMAND(s->relocation_count == 0);
    unsigned int sum = 0;
    for (uint64_t i = 0; s->init != NULL && i < s->bytes && i < 4096; i++)
        sum += s->init[i]; /* all of them can be read */
    DEMAND(sum < UINT32_MAX);
    for (unsigned int i = 0; i < s->relocation_count; i++) {
        const struct ptx_relocation *r = &s->relocations[i];
        DEMAND(r->symbol && r->bytes > 0 && r->bytes <= 8 && r->shift < 64);
        DEMAND(r->offset <= s->bytes && r->bytes <= s->bytes - r->offset);
    }
}

static void check_register(const struct ptx_function *f, const struct ptx_symbol *s, unsigned int index)
{
    DEMAND(s && s->kind == PTX_REGISTER && s->name);
    DEMAND(index >= s->first && index - s->first < s->count);
    DEMAND(index < f->register_count);
}

static void check_operand(const struct ptx_function *f, const struct ptx_operand *o, unsigned int depth)
{
    DEMAND(depth < 100);
    DEMAND(o->count == 0 || o->items != NULL);
    for (unsigned int i = 0; i < o->count; i++)
        check_operand(f, &o->items[i], depth + 1);
    switch (o->kind) {
    case PTX_OP_REGISTER:
        check_register(f, o->symbol, o->index);
        DEMAND(o->component == 0 || o->symbol->vector > 1);
        break;
    case PTX_OP_SYMBOL:
        DEMAND(o->symbol && o->symbol->kind != PTX_REGISTER && o->symbol->name);
        DEMAND(o->symbol->kind != PTX_LABEL || o->symbol->target <= f->code_count);
        break;
    case PTX_OP_SPECIAL:
        DEMAND(o->name && o->name[0]);
        break;
    case PTX_OP_ADDRESS:
        DEMAND(o->count >= 1);
        break;
    case PTX_OP_LIST:
        DEMAND(o->count >= 1);
        break;
    case PTX_OP_PAIR:
        DEMAND(o->count == 2);
        break;
    default:
        DEMAND(o->symbol == NULL && (o->kind == PTX_OP_GROUP || o->count == 0));
        break;
    }
}

static void check_function(const struct ptx_module *m, const struct ptx_function *f)
{
    char text[256];
    check_place(m, &f->place);
    DEMAND(f->name && (f->has_body || f->code_count == 0));
    for (unsigned int i = 0, next = 0; i < f->register_symbols; i++) {
        DEMAND(f->registers[i]->first == next);
        next += (unsigned int)f->registers[i]->count;
        DEMAND(next <= f->register_count && (i + 1 < f->register_symbols || next == f->register_count));
    }
    for (unsigned int i = 0; i < f->parameter_count; i++)
        DEMAND(f->parameters[i]->space == PTX_PARAM || f->parameters[i]->space == PTX_REG);
    for (unsigned int i = 0; i < f->variable_count; i++)
        check_variable(m, f->variables[i]);
    for (unsigned int i = 0; i < f->label_count; i++) {
        DEMAND(f->labels[i]->kind == PTX_LABEL && f->labels[i]->target <= f->code_count);
        DEMAND(i == 0 || f->labels[i - 1]->target <= f->labels[i]->target);
    }
    for (unsigned int i = 0; i < f->code_count; i++) {
        const struct ptx_instruction *in = &f->code[i];
        check_place(m, &in->place);
        DEMAND(in->opcode && (!in->guarded || in->guard < f->register_count));
        for (unsigned int k = 0; k < in->modifier_count; k++)
            DEMAND(in->modifiers[k] && in->modifiers[k][0]);
        for (unsigned int k = 0; k < in->operand_count; k++)
            check_operand(f, &in->operands[k], 0);
        DEMAND(strncmp(ptx_instruction_text(in, text, sizeof text), in->opcode, 200) == 0 ||
               in->modifier_count || in->operand_count);
    }
}

/* The parser accepted a text: what follows the parser is tested here. */
static void check_module(const struct ptx_module *m)
{
    DEMAND(m->version > 0 && m->target > 0 && m->address_size == 64);
    for (unsigned int i = 0; i < m->inlined_count; i++) {
        check_place(m, &m->inlined[i].place);
        DEMAND(m->inlined[i].place.caller <= i); /* chains must end */
    }
    for (unsigned int i = 0; i < m->variable_count; i++)
        check_variable(m, m->variables[i]);
    for (unsigned int i = 0; i < m->function_count; i++)
        check_function(m, m->functions[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char  error[128] = "unchanged";
    char *copy = (char *)malloc(size ? size : 1); /* no 0 behind it: reading too far is detected */
    if (copy == NULL)
        return 0;
    if (size)
        memcpy(copy, data, size);
    struct ptx_module *m = ptx_parse(copy, size, error, sizeof error);
    free(copy); /* the tree does not need it */
    if (m != NULL) {
        check_module(m);
    } else {
        DEMAND(strlen(error) < sizeof error && strchr(error, '\n') == NULL);
        DEMAND(strncmp(error, "line ", 5) == 0 || strcmp(error, "out of memory") == 0);
        DEMAND(ptx_parse("", 0, NULL, 0) == NULL); /* the error text may have no buffer */
    }
    ptx_free(m);
    return 0;
}

#ifndef LIBFUZZER

/* The texts begin like this one, which has something of everything; then its lines and pieces are mixed. */
static const char *const lines[] = {
    ".file 1 \"a.cu\"\n",
    ".file 2 \"b.cu\", 5, 6\n",
    ".extern .func (.param .b32 r0) vprintf (.param .b64 p0, .param .b64 p1);\n",
    ".func (.reg .b32 %r) add2 (.reg .b32 %a, .reg .b32 %b) { add.u32 %r, %a, %b; ret; }\n",
    ".func nothing () .noreturn { trap; }\n",
    ".func other ();\n.alias other, nothing;\n",
    ".global .align 16 .b8 text[6] = {104, 101, 108, 108, 111};\n",
    ".global .align 8 .u64 table[3] = {generic(text)+1, text, vprintf};\n",
    ".global .u8 bytes[2] = {0xff(text), 0xff00(generic(text)+4)};\n",
    ".global .v4 .f32 grid[2][3] = {{{1.0, 0f3F800000, -2.5, 1e3}}};\n",
    ".const .b32 open[] = {1, 2, 3 + 4 * (5 - 2), 1 ? 2 : 3};\n",
    ".extern .shared .align 128 .b8 tiles[];\n.extern .global .u32 far; .visible .global .u32 far = 3;\n",
    ".global .b32 many<3>;\n.global .attribute(.managed) .u32 managed;\n",
    ".visible .entry kernel (.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 b[24])\n",
    ".maxntid 128, 1, 1\n.minnctapersm 2\n",
    "{\n",
    "\t.reg .pred %p<4>; .reg .b32 %i<9>; .reg .b64 %d<4>; .reg .f32 %f<8>; .reg .v4 .f32 %v;\n",
    "\t.local .align 8 .b8 depot[16];\n\t.shared .f32 s[4][4];\n",
    "\t.loc 1 3 4\n",
    "\t.loc 2 7 1, function_name $name+1, inlined_at 1 3 4\n",
    "\tld.param.u64 %d1, [a];\n\tcvta.to.global.u64 %d2, %d1;\n",
    "\tmov.u32 %i1, %tid.x; mov.u32 %i2, %envreg3;\n",
    "$top:\n\t@!%p1 bra $end;\n",
    "\tld.global.L2::128B.v4.f32 {%f0, %f1, _, %f3}, [%d2+-16];\n",
    "\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%i0,%i1,%i2,%i3}, {%i4,%i5}, "
    "{%f4,%f5,%f6,%f7};\n",
    "\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%i0], [%d0, {%i1, %i2}], "
    "[%i3];\n",
    "\tsetp.lt.and.s32 %p1|%p2, %i1, -5, !%p3;\n\tmov.f32 %f0, %v.x;\n",
    "\t{\n\t.reg .b32 %i1; .param .b32 q; st.param.b32 [q+0], %i1;\n",
    "\tproto: .callprototype (.param .b32 _) _ (.param .b32 _);\n\tcall (q), %d1, (q, (5 + 3) * 2), proto;\n",
    "\tcall.uni (%i1), add2, (%i2, 7);\n\t}\n",
    "\tjumps: .branchtargets $top, $end;\n\tbrx.idx %i1, jumps;\n",
    "\tmov.u64 %d3, table+8; ld.global.u64 %d3, table[2]; mov.u32 %i1, WARP_SZ;\n",
    "\t.pragma \"nounroll\";\n",
    "$end:\n\tret;\n}\n",
    "@@DWARF .byte 0\n",
    ".section .debug_str {\n$name: .b8 95, 90, 0\n.b32 $name-$name .b64 .debug_info+4\n}\n",
};
/* clang-format off */
static const char *const pieces[] = {
    ".reg ", ".b32 ", ".b8 ", ".v4 ", ".pred ", ".param ", ".shared ", ".global ", ".const ", ".local ",
    ".align 16 ", ".entry ", ".func ", ".extern ", ".visible ", ".weak ", ".common ", ".loc 1 2 3\n",
    "\n.loc 2 3 4, inlined_at 1 3 4\n", ".section .debug_str {", ".branchtargets ", ".calltargets ",
    ".callprototype ", ".alias ", ".ptr ", ".texref ", ".maxntid 4294967295, 2", ".reqnctapercluster 2",
    ".noreturn ", ".pragma \"x\";", ".attribute(.unified(1,2)) ", "%r", "%r1", "%r<5>", "%r<1048576>",
    "%p1", "%d2", "%i3", "%tid", "%tid.x", ".x", ".w", "$end", "L:", "L", "a", "kernel", "add2", "text",
    "_", "WARP_SZ", "generic(", "0xff(", "ld.global.u32 ", "bra ", "call ", "mov.b32 ", "ret;", "@%p1 ",
    "@!", "{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", "=", "|", "!", "-", "~", "+", "*", "/",
    "%", "?", "<<", ">>", "&&", "==", "{{{", "}}}", "((((((((", "[[", "[4]", "[]", "[1099511627776]",
    "<3>", "0", "1", "7", "-1", "4096", "18446744073709551615", "18446744073709551616",
    "0x7fffffffffffffff", "0f3F800000", "0f3F8", "0d7FF0000000000000", "1.5", "1e400", "08", "0b101", "1U",
    "\"", "\"s\"", "//", "/*", "*/", "\n", "\n", " ", "\t", "\r\n", "\xff", "#", "'", "\\",
    ".version 9.0\n", ".target sm_90a\n", ".address_size 64\n", "mbarrier::", "::", ".shared::cta",
    "@@DWARF", "$", "%", ".",
};
/* clang-format on */
enum { LINES = sizeof lines / sizeof *lines, PIECES = sizeof pieces / sizeof *pieces, MAX_TEXT = 16384 };
static const char header[] = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

static size_t append(char *text, size_t size, const char *piece)
{
    size_t bytes = strlen(piece);
    if (size + bytes > MAX_TEXT)
        return size;
    memcpy(text + size, piece, bytes);
    return size + bytes;
}

/* Puts `piece` in place of `gone` bytes at `at`. */
static size_t splice(char *text, size_t size, size_t at, size_t gone, const char *piece)
{
    size_t bytes = strlen(piece);
    gone = gone > size - at ? size - at : gone;
    if (size - gone + bytes > MAX_TEXT)
        return size;
    memmove(text + at + bytes, text + at + gone, size - at - gone);
    memcpy(text + at, piece, bytes);
    return size - gone + bytes;
}

static size_t make(char *text)
{
    size_t size = append(text, 0, draw(20) ? header : "");
    for (uint32_t i = 0; i < LINES; i++) { /* all in order, except a few */
        uint32_t what = draw(100);
        if (what > 3)
            size = append(text, size, lines[i]);
        if (what == 1 || what == 4)
            size = append(text, size, lines[draw(LINES)]);
    }
    for (uint32_t n = draw(5); n > 0 && size; n--) {
        size_t at = draw((uint32_t)size);
        if (draw(2)) /* move to the border of a word */
            while (at > 0 && text[at - 1] > ' ')
                at--;
        switch (draw(4)) {
        case 0:
            size = splice(text, size, at, 0, pieces[draw(PIECES)]);
            break;
        case 1:
            size = splice(text, size, at, 1 + draw(8), pieces[draw(PIECES)]);
            break;
        case 2:
            size = splice(text, size, at, 1 + draw(4), "");
            break;
        default:
            if (!draw(8))
                text[at] = (char)draw(256);
            break;
        }
    }
    return draw(30) || !size ? size : draw((uint32_t)size); /* now and then the text is cut */
}

int main(int argc, char **argv)
{
    static char text[MAX_TEXT];
    long        count = fuzz_begin(argc, argv, "fuzz_parse", 30000), taken = 0;
    for (long i = 0; i < count; i++) {
        size_t             size = make(text);
        struct ptx_module *m = ptx_parse(text, size, NULL, 0);
        taken += m != NULL;
        ptx_free(m);
        LLVMFuzzerTestOneInput((const uint8_t *)text, size);
    }
    printf("fuzz_parse: %ld of them accepted\n", taken);
    return count >= 1000 && taken < count / 50; /* the test is useless if almost no text is accepted */
}
#endif
