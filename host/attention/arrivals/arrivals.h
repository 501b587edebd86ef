/* arrivals.h - private: keys that arrive while a launch runs, as attention.h says under "Arrivals". */
#ifndef PTXPACK_ATTENTION_ARRIVALS_H
#define PTXPACK_ATTENTION_ARRIVALS_H
#include "host/attention/check.h"

/* Words: of a piece that is in k and v; of one that is in k_own and v_own, its first row there plus this. */
enum { ATTENTION_ARRIVED = 1, ATTENTION_ARRIVED_OWN = 2 };

/* Checks the fields, and sets what depends on them.  PTXPACK_E_ARG */
ptxpack_status attention_resolve_arrivals(const ptxpack_attention_desc *desc, attention_geometry *out,
                                          char line[PLAN_LINE]);
/* Why a row never waits for keys: NULL, or a line. */
const char *attention_arrivals_missing(const ptxpack_variant *row);
/* For methods that read all keys at once: NULL, or `line`. */
const char *attention_refuse_arrivals(const attention_geometry *geometry, char line[PLAN_LINE]);
/* For a row of wgmma.ptx whose blocks do not divide the pieces, and for what it does not take with them: NULL, or `line`. */
const char *attention_refuse_pieces(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                    const ptxpack_variant *row, char line[PLAN_LINE]);
/* How many rows before row 0 the tiles begin, so that one ends where early_rows do. */
int32_t attention_early_shift(const attention_geometry *geometry, int64_t block_m);
/* Of two runs of rows, each of which has a piece of keys: the keys from the first one's piece to before the second one's, which
 * rows of the second run take in another order, that piece before the others.  Otherwise none. */
void attention_find_turn(const ptxpack_attention_desc *desc, const attention_geometry *geometry, int32_t *first,
                         int32_t *end);
/* Where the lse of a row of dense q is, in elements: that of the rows before early_rows comes first. */
int64_t attention_lse_place(const ptxpack_attention_desc *desc, int64_t batch, int64_t head, int64_t row);
/* The problem with k_own and v_own in the place of k and v. */
void attention_own_keys(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                        ptxpack_attention_desc *own_desc, attention_geometry *own_geometry);
#endif
