/* arguments.h - private: the .param struct of a kernel, described once.
 *
 * LIST(X, S) has one X(S, type, member, "SYMBOL") for each member, the widest first, so that there is no
 * padding inside.  From it come the struct S and the symbols that tell the PTX the byte offset of each
 * member. */
#ifndef PTXPACK_ARGUMENTS_H
#define PTXPACK_ARGUMENTS_H
#include <stddef.h>
#include <stdint.h>

typedef struct argument_field {
    const char *symbol;
    size_t      offset, bytes;
} argument_field;

#define ARGUMENT_MEMBER(S, type, member, symbol) type member;
#define ARGUMENT_FIELD(S, type, member, symbol)  {symbol, offsetof(S, member), sizeof(type)},
/* LIST(ARGUMENT_COPY, ) copies the members of a list that two structs have: from `from` to *`to`. */
#define ARGUMENT_COPY(S, type, member, symbol) to->member = from.member;
/* Declares the struct, and the initialiser of its array of argument_field. */
#define ARGUMENT_STRUCT(LIST, S) \
    typedef struct S {           \
        LIST(ARGUMENT_MEMBER, S) \
    } S
#define ARGUMENT_FIELDS(LIST, S) \
    {                            \
        LIST(ARGUMENT_FIELD, S)  \
    }

/* The driver's CUtensorMap. */
typedef struct argument_tensor_map {
    _Alignas(64) uint64_t opaque[16];
} argument_tensor_map;
#endif
