/* isa.h - private: a version of the PTX ISA in messages. */
#ifndef PTXPACK_ISA_H
#define PTXPACK_ISA_H
#include <stddef.h>

/* Write "PTX ISA 9.0 (CUDA 13.0, driver branch 580)" for isa = 90 to buf, at most `cap` bytes; of a version whose
 * release is unknown, the number alone: "PTX ISA 9.9".  Returns buf. */
const char *ptxpack_isa_text(int isa, char *buf, size_t cap);
#endif
