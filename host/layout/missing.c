/* missing.c - what stands in for an operand that is NULL: a value with an error, which every operation passes on. */
#include "internal.h"
#include "notation.h"
#include "tensor.h"

static const ptxpack_layout no_layout = {.shape = {.status = PTXPACK_E_ARG},
                                         .stride = {.status = PTXPACK_E_ARG}};

ptxpack_status operand_missing(const char *call, const char *operand)
{
    return tuple_error("%s: %s is NULL", call, operand).status;
}

const ptxpack_tuple *tuple_missing(const char *call, const char *operand)
{
    operand_missing(call, operand);
    return &no_layout.shape;
}

const ptxpack_layout *layout_missing(const char *call, const char *operand)
{
    operand_missing(call, operand);
    return &no_layout;
}

const ptxpack_tensor *tensor_missing(const char *call, const char *operand)
{
    static const ptxpack_tensor no_tensor = {
        .layout = {.shape = {.status = PTXPACK_E_ARG}, .stride = {.status = PTXPACK_E_ARG}}};
    operand_missing(call, operand);
    return &no_tensor;
}
