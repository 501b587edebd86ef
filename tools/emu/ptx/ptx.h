/* ptx.h - the syntax tree of PTX: variables, functions and instructions of a module, with names resolved.
 *
 * The parser knows the language (PTX ISA 9.0), not the instructions: opcodes, modifiers and operands are
 * kept as written; the room decode gives them a meaning or refuses them.
 *
 *   char error[256];
 *   struct ptx_module *m = ptx_parse(text, bytes, error, sizeof error);   // NULL: error is "line 12: ..."
 *   ptx_free(m);
 *
 * Ownership  the module owns everything, including strings, which are NUL-terminated.
 * Threads    a parsed module is never written to. */
#ifndef EMU_PTX_H
#define EMU_PTX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, bits.  Types that are only modifiers of instructions (f16x2, tf32, e4m3x2, ...) stay text. */
/* clang-format off */
#define PTX_TYPE_MAP(X)                                                                    \
    X(pred, 1) X(b8, 8) X(b16, 16) X(b32, 32) X(b64, 64) X(b128, 128)                      \
    X(u8, 8) X(u16, 16) X(u32, 32) X(u64, 64) X(s8, 8) X(s16, 16) X(s32, 32) X(s64, 64)    \
    X(f16, 16) X(f16x2, 32) X(bf16, 16) X(bf16x2, 32) X(f32, 32) X(f64, 64)                \
    X(texref, 64) X(samplerref, 64) X(surfref, 64)
/* clang-format on */
enum ptx_type {
    PTX_NO_TYPE,
#define PTX_TYPE_ENUM(name, bits) PTX_##name,
    PTX_TYPE_MAP(PTX_TYPE_ENUM)
#undef PTX_TYPE_ENUM
        PTX_TYPE_COUNT
};
unsigned int  ptx_type_bits(enum ptx_type type); /* 0 for PTX_NO_TYPE */
const char   *ptx_type_name(enum ptx_type type);
enum ptx_type ptx_type_find(const char *name); /* without the dot; PTX_NO_TYPE: no such type */

enum ptx_space { PTX_NO_SPACE, PTX_REG, PTX_PARAM, PTX_LOCAL, PTX_SHARED, PTX_GLOBAL, PTX_CONST, PTX_TEX };

/* A place: the line of the PTX text, and what the last .loc said (0: nothing). */
struct ptx_place {
    uint32_t line;      /* of the text, from 1                                       */
    uint32_t file;      /* of .file: index into ptx_module.files; 0: none            */
    uint32_t file_line; /* of .loc                                                    */
    uint32_t caller;    /* inlined_at: index into ptx_module.inlined + 1; 0: not inlined */
};
struct ptx_inlined {
    struct ptx_place place;
    const char      *function; /* inlined here; may be NULL */
};

enum ptx_symbol_kind {
    PTX_REGISTER,
    PTX_VARIABLE,
    PTX_LABEL,
    PTX_FUNCTION,
    PTX_PROTOTYPE,
    PTX_TARGETS,
    PTX_MISSING /* an unknown name, in the tree of a text with errors */
};

/* One declared name.  `.reg .b32 %r<9>` is one symbol of 9 registers. */
struct ptx_symbol {
    enum ptx_symbol_kind   kind;
    const char            *name;
    enum ptx_space         space;  /* variables, and PTX_REG                                     */
    enum ptx_type          type;   /* of an element                                              */
    unsigned int           vector; /* .v2, .v4: elements of a register or element; otherwise 1   */
    uint64_t               count;  /* array elements, or registers of a family; 1 otherwise      */
    uint64_t               bytes;  /* of a variable, 0 for an unsized array                      */
    unsigned int           align;  /* bytes; at least the natural alignment                      */
    bool                   is_extern, is_visible, is_weak, is_common, is_array;
    unsigned int           first;       /* PTX_REGISTER: number of the first, dense in the function   */
    uint32_t               target;      /* PTX_LABEL: index of the instruction that follows           */
    unsigned char         *init;        /* `bytes` initial bytes; NULL: zeros                         */
    struct ptx_relocation *relocations; /* addresses of symbols within init                  */
    unsigned int           relocation_count;
    struct ptx_function   *function; /* PTX_FUNCTION; PTX_PROTOTYPE: its parameters only  */
    struct ptx_symbol    **targets;  /* PTX_TARGETS (.branchtargets, .calltargets)        */
    unsigned int           target_count;
    struct ptx_place       place;
};
struct ptx_relocation {
    uint64_t                 offset;  /* into init                                                  */
    unsigned int             bytes;   /* 8, or fewer: a byte of mask(address), see shift            */
    unsigned int             shift;   /* the address is shifted right by this first                 */
    bool                     generic; /* generic(symbol)                                            */
    const struct ptx_symbol *symbol;
    int64_t                  addend;
};

enum ptx_operand_kind {
    PTX_OP_REGISTER, /* symbol, index (number in the function), component          */
    PTX_OP_INTEGER,  /* integer; unsigned_literal when it had a U or exceeds INT64_MAX */
    PTX_OP_F32,
    PTX_OP_F64,     /* 0f........ / 0d................ and decimal: bits in integer */
    PTX_OP_SYMBOL,  /* symbol + integer: variable, function, label, prototype, targets */
    PTX_OP_SPECIAL, /* %tid.x: name without %, e.g. "tid.x"                       */
    PTX_OP_ADDRESS, /* [base + integer]: items[0] is register, symbol or integer 0; */
                    /* [map, {c...}] and longer: the rest follows in items        */
    PTX_OP_LIST,    /* { ... }; symbol: a vector register, whose components are the items */
    PTX_OP_PAIR,    /* a|b: items[0], items[1]                                    */
    PTX_OP_GROUP,   /* ( ... ) of a call                                          */
    PTX_OP_SINK     /* _                                                          */
};
struct ptx_operand {
    enum ptx_operand_kind    kind;
    bool                     negated; /* !p, or -%r in front of a register                          */
    bool                     unsigned_literal;
    char                     component; /* x y z w (r g b a become x y z w), 0: none                  */
    const struct ptx_symbol *symbol;
    unsigned int             index;   /* PTX_OP_REGISTER: its number in the function                */
    uint64_t                 integer; /* literal, bits, or offset (two's complement)                */
    const char              *name;    /* PTX_OP_SPECIAL                                             */
    struct ptx_operand      *items;
    unsigned int             count;
};

struct ptx_instruction {
    const char         *opcode;    /* "mma", "ld", "cp", "wgmma", "barrier", ...: up to the first dot */
    const char        **modifiers; /* the rest, split at dots: "async", "shared::cta", "f16"    */
    unsigned int        modifier_count;
    bool                guarded, guard_negated;
    unsigned int        guard;    /* number of the predicate register                           */
    struct ptx_operand *operands; /* call: GROUP of results if any, target, GROUP of arguments if any, ... */
    unsigned int        operand_count;
    struct ptx_place    place;
};

enum { PTX_DIMENSIONS = 3 };
struct ptx_function {
    const char             *name;
    bool                    is_entry, is_extern, is_visible, is_weak, is_noreturn, has_body;
    struct ptx_symbol     **parameters, **results; /* variables in .param, or registers          */
    unsigned int            parameter_count, result_count;
    struct ptx_symbol     **registers; /* in order of .first                                    */
    unsigned int            register_symbols, register_count;
    struct ptx_symbol     **variables; /* declared in the body: local, shared, param, global... */
    unsigned int            variable_count;
    struct ptx_instruction *code;
    unsigned int            code_count;
    struct ptx_symbol     **labels; /* in order of .target */
    unsigned int            label_count;
    unsigned int            max_threads[PTX_DIMENSIONS], required_threads[PTX_DIMENSIONS]; /* 0: not given */
    unsigned int            min_ctas, max_registers;
    unsigned int            required_cluster[PTX_DIMENSIONS], max_cluster_rank; /* .reqnctapercluster */
    bool                    explicit_cluster;
    struct ptx_place        place;
};

struct ptx_module {
    int                   version;       /* 90 for .version 9.0                                        */
    int                   target;        /* 90 for sm_90, sm_90a                                        */
    char                  target_suffix; /* 'a', 'f' or 0                                            */
    unsigned int          address_size;  /* 64 (32 is refused)                                        */
    const char          **files;         /* by .file index; files[0] is NULL                           */
    unsigned int          file_count;
    struct ptx_inlined   *inlined;
    unsigned int          inlined_count;
    struct ptx_symbol   **variables; /* at module scope */
    unsigned int          variable_count;
    struct ptx_function **functions; /* declared or defined, each once */
    unsigned int          function_count;
    struct ptx_memory    *memory; /* all of this is allocated from it */
};

/* NULL: error holds one line, "line 12: unknown name '%r9'" or ptx_no_memory_text.  `text` need not outlive
 * the call.  Nesting, counts and sizes are limited, so that hostile text ends in an error. */
struct ptx_module *ptx_parse(const char *text, size_t bytes, char *error, size_t cap);
void               ptx_free(struct ptx_module *module);

/* All errors of a text in the order in which they were found: the first of them as lines "line 12: ...", divided by
 * '\n'.  Initialise it with a buffer and the number of lines that are wanted. */
enum { PTX_ERRORS = 100 }; /* as many as anyone reads */
struct ptx_errors {
    char        *text; /* of `cap` bytes; may be NULL if cap is 0 */
    size_t       cap, bytes;
    unsigned int most, kept, count; /* lines at most, lines in text, errors in all */
};
/* Add a line, unless it repeats the last one. */
void ptx_errors_add(struct ptx_errors *errors, const char *line);
/* The same as ptx_parse, but after an error the parser goes on with the next statement.  If there are errors, the
 * tree (NULL: none could be built) has what was understood: functions without the statements that have errors, and
 * PTX_MISSING for names that turned out to be unknown later. */
struct ptx_module *ptx_parse_all(const char *text, size_t bytes, struct ptx_errors *errors);

extern const char ptx_no_memory_text[]; /* "out of memory" */

/* Memory that lives as long as the module: zeroed; NULL when it is out. */
void              *ptx_alloc(struct ptx_memory *memory, size_t count, size_t size);
struct ptx_memory *ptx_memory_new(void);
void               ptx_memory_free(struct ptx_memory *memory);

/* "ptx/attention/mma_softmax.ptx:40" from .loc where there is one (with "(in macro at kernel.ptx:123)" for
 * inlined places), otherwise "line 12 of the PTX"; returns buf. */
const char *ptx_place_text(const struct ptx_module *module, const struct ptx_place *place, char *buf,
                           size_t cap);
/* The instruction as it was written, without its guard: "ld.shared.v4.u32 ..."; returns buf. */
const char *ptx_instruction_text(const struct ptx_instruction *in, char *buf, size_t cap);
#endif
