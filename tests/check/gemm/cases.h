/* cases.h - the products that gemm.c computes: element types x orders x sizes x epilogues x layouts x kinds of data. */
#ifndef PTXPACK_CHECK_GEMM_CASES_H
#define PTXPACK_CHECK_GEMM_CASES_H
#include "tests/check/check.h"
#include "host/gemm/inspect.h"

typedef enum data_kind { NORMAL, EQUAL, HUGE_VALUES, TINY, ZEROS, NOT_FINITE, KINDS } data_kind;

typedef struct gemm_epilogue {
    const char        *name;
    float              alpha, beta;
    bool               has_c, has_bias, in_place;
    ptxpack_activation activation;
} gemm_epilogue;

/* Indices of the tables in cases.c. */
typedef struct gemm_case {
    int       dtype, operands, order, size, epilogue, layout;
    data_kind kind;
} gemm_case;

/* As many as there could be; and those that are wanted, into `cases`. */
size_t gemm_cases_most(void);
size_t gemm_cases_list(check *c, gemm_case *cases);

uint64_t             gemm_case_number(const gemm_case *a); /* no two have the same */
void                 gemm_case_name(const gemm_case *a, char name[128]);
ptxpack_gemm_desc    gemm_case_desc(const gemm_case *a);
const gemm_epilogue *gemm_case_epilogue(const gemm_case *a);
/* Whether its size is for the kernels of few rows, which others take, too. */
bool gemm_case_is_for_few_rows(const gemm_case *a);
#endif
