/* attached.h - private: an append that is a part of an attention: one descriptor, one plan, one launch. */
#ifndef PTXPACK_ATTENTION_APPEND_ATTACHED_H
#define PTXPACK_ATTENTION_APPEND_ATTACHED_H
#include "host/attention/op.h"
#include "op.h"

/* The append of a whole descriptor that has one, with what it leaves 0 as the attention's.  PTXPACK_E_ARG, with the line
 * of the field, also of the attention's own fields */
ptxpack_status attached_describe(const ptxpack_attention_desc *desc, ptxpack_attention_append_desc *out,
                                 char line[PLAN_LINE]);
/* The same for the buffers of a launch; then checks all addresses of both.  PTXPACK_E_ARG */
ptxpack_status attached_check(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                              ptxpack_attention_append_buffers *out, char line[PLAN_LINE]);
#endif
