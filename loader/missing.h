/* missing.h - private: the refusal of an argument of a public call that is NULL. */
#ifndef PTXPACK_MISSING_H
#define PTXPACK_MISSING_H
#include "loader.h"

/* PTXPACK_E_ARG, with "CALL: ARGUMENT is NULL" as the line of the handle, which may be NULL itself. */
#define PTXPACK_MISSING(handle, argument) \
    ptxpack_fail(handle, PTXPACK_E_ARG, "%s: " argument " is NULL", __func__)
#endif
