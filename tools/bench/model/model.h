/* model.h - private: what ptxpack bench model measures, for its tests, too. */
#ifndef PTXPACK_BENCH_MODEL_H
#define PTXPACK_BENCH_MODEL_H
#include "tools/bench/bench.h"

typedef struct model_shape {
    const char *name;
    int         layers, hidden, inner, vocab, heads, heads_kv, head_dim;
    double      theta;
    bool        qk_norm, tied;
    int  experts, top_k; /* of each layer, with an `inner` each; of a row.  experts 0: all rows have one */
    bool normalise;      /* the weights of a row's experts sum to 1 */
} model_shape;

typedef struct model_work {
    const model_shape *shape;
    bench_list         batches, contexts; /* decoding: every batch with every context */
    bench_list         prompts;           /* prefill: of one sequence, at once */
    int                steps, repeats;    /* decoding steps; prompts of a prefill; both are averaged */
    size_t             roof_bytes;        /* of the reduction */
} model_work;

/* Returns an exit status.  What fails within the model ends the program with one line. */
int bench_model_run(device *target, const bench_settings *settings, const model_work *work);
#endif
