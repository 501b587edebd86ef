/* llama.h - a decoder-only transformer on libptxpack: what each file gives to the others, in the order of a run.  An error
 * ends the program with one line that names the culprit, and status 1. */
#ifndef LLAMA_H
#define LLAMA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ptxpack/ptxpack.h>

/* ---- main.c: arguments, the folder, the requests, what is printed ---------------------------------------------------- */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define NEED(condition, ...) ((condition) ? (void)0 : die(__VA_ARGS__))
void *allocate(size_t count, size_t bytes);                 /* zeros; never NULL */
void *enlarge(void *memory, size_t count, size_t bytes);    /* realloc; never NULL */

/* ---- json.c: reads RFC 8259, strictly: no name twice in an object, no NUL in a string, at most 64 levels ---------------- */
typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;
typedef struct json {
    json_kind    kind;
    const char  *name, *text; /* of a member, otherwise NULL; of a string, without escapes */
    double       number;
    struct json *first, *next; /* members or elements, in their order */
} json;
json       *json_read(const char *text, size_t bytes, const char *origin); /* one piece for free(); origin: the file's name */
const json *json_member(const json *object, const char *name);             /* NULL: there is none, or it is null */
bool        json_whole(const json *value, uint64_t *number);               /* a whole number from 0 to 2^53 */

/* ---- safetensors.c: maps the files of model.safetensors.index.json, or model.safetensors ----------------------------------- */
typedef struct checkpoint checkpoint;
checkpoint   *checkpoint_open(const char *folder);
void          checkpoint_close(checkpoint *c);
ptxpack_dtype checkpoint_dtype(const checkpoint *c); /* of all that were taken, at least one: PTXPACK_F16 or PTXPACK_BF16 */
bool          checkpoint_has(const checkpoint *c, const char *name);
const void   *checkpoint_take(checkpoint *c, const char *name, int rows, int columns); /* columns 0: a vector */
void          checkpoint_all_taken(const checkpoint *c); /* dies of a tensor that no part of the model has taken */
const char   *map_file(const char *path, size_t *bytes);

/* ---- config.c: what the model is; refuses by name what this program does not compute ------------------------------------ */
typedef struct config {
    const char *family; /* its model_type */
    int         layers, hidden, inner, vocab, positions, heads, heads_kv, head_dim;
    int         experts, top_k; /* of each layer, with an `inner` each; of a row.  experts 0: all rows have one */
    int         window; /* a row attends to so many keys, itself among them; 0: to all */
    bool        tied, qk_norm, qkv_bias, o_bias, mlp_bias, normalise; /* normalise: the weights of top_k sum to 1 */
    bool        scaled; /* Llama 3's rotary scaling: */
    double      factor, low, high, original, theta, eps;
    int         stop[8], stops;
} config;
void   config_read(const char *folder, config *c);
double config_frequency(const config *c, int pair); /* of a rotary pair, in radians a position */

/* ---- gpu.c: the driver's calls, and memory, which goes with gpu_close ----------------------------------------------------- */
typedef struct gpu {
    ptxpack                     *pack;
    const struct ptxpack_driver *cuda;
    struct CUstream_st          *stream;
    struct gpu_piece            *pieces; /* what was allocated, the last one first */
    struct upload               *upload; /* of upload.c; NULL: nothing was written yet */
} gpu;
void     gpu_open(gpu *d, int device); /* a context that is current is its context, whatever the device */
void     gpu_close(gpu *d);
void     gpu_enter(const gpu *d);           /* the calls below are for the GPU that was opened or entered last */
void     gpu_need(const gpu *d, int count); /* dies unless there are so many GPUs, and each can read the memory of the others */
void     gpu_release(gpu *d, struct gpu_piece *kept); /* frees what was allocated after `kept`, a former value of d->pieces */
void     try_pack(const gpu *d, ptxpack_status status);
void     try_cuda(const gpu *d, ptxpack_cu_result result, const char *what);
uint64_t gpu_memory(gpu *d, size_t bytes); /* zeros */
void    *gpu_pinned(gpu *d, size_t bytes); /* of the host, zeros */
void     gpu_send(const gpu *d, uint64_t from, const gpu *other, uint64_t to, size_t bytes); /* in the stream of d */

/* ---- upload.c: what the stream of a GPU writes to its memory; the source may be changed as soon as a call returns ----------------- */
void gpu_write(gpu *d, uint64_t to, const void *from, size_t bytes);
/* The same of pieces of so many bytes, of the parts in turn: the first one of parts[0], of parts[1], .., the second one of parts[0]. */
void gpu_write_mixed(gpu *d, uint64_t to, const void *const parts[], size_t count, size_t piece, size_t bytes);
void upload_close(struct upload *u); /* when all has been written; NULL is allowed */

/* ---- model.c: weights in host and device memory, rotary tables and the cache ---------------------------------------------- */
enum { /* of a layer; those that share an input are neighbours */
    NORM_1, Q, K, V, Q_BIAS, K_BIAS, V_BIAS, Q_NORM, K_NORM, O, O_BIAS, NORM_2, ROUTER, GATE, UP, DOWN, GATE_BIAS, UP_BIAS,
    DOWN_BIAS, LAYER_TENSORS
};
typedef struct weights { /* in host memory, mapped; NULL where the model has none */
    ptxpack_dtype dtype, matrices; /* matrices: 0, or PTXPACK_E4M3, to which model_load rounds those of layers, but for routers */
    const void   *embedding, *norm, *head, *(*layers)[LAYER_TENSORS];
    const void  *(*experts)[3]; /* [layers][experts] of GATE, UP, DOWN, which layers has not then */
} weights;
void   weights_take(const config *c, checkpoint *from, weights *out);
size_t weights_elements(const config *c, int index); /* of a layer's tensor, or of each expert's; 0: the model has none */
const void *const *weights_mlp(const config *c, const weights *w, int layer, int expert); /* GATE, UP, DOWN */
typedef struct model_layer { /* parts with one input are one matrix, at the first one's address, experts follow each other; 0: none */
    uint64_t part[LAYER_TENSORS], scale[LAYER_TENSORS], k, v; /* scale: of the rows of one of e4m3; k, v: pages of the cache, [pages][page_rows][heads_kv][head_dim] */
} model_layer;
typedef struct limits { /* sequences at once; tokens of a prefill; of a page; pages; tokens of a sequence; GPUs, and the fewest tokens of each */
    int  slots, chunk, page_rows, pages, length, gpus, share;
    bool choices; /* whether steps keep which experts their rows took */
} limits;
typedef struct model {
    config        config;
    limits        limits;
    ptxpack_dtype dtype, matrices; /* matrices: 0, or PTXPACK_E4M3, of a layer's but its router */
    uint64_t      wide; /* room for any matrix of a layer in 16 bits: of those of e4m3 one after another, when they come and when many rows want them */
    gpu        device;
    uint64_t      embedding, norm, head, cos, sin; /* cos, sin: [length][head_dim / 2] */
    model_layer  *layers;
    int           table_width, vocab_stride; /* pages of a sequence; elements of a row of logits */
    struct shards *shards; /* NULL: prompts are prefilled here alone */
} model;
/* Of a product of 16 bits and e4m3, and on average of each expert's: of more rows it is one of 16 bits. */
enum { QUANTISED_ROWS = 32, EXPERT_ROWS = 64 };
bool   model_widens_experts(const config *c, int tokens); /* whether all experts of e4m3 become 16 bits for so many tokens at once */
void   model_load(model *m, const config *c, const limits *l, const weights *w, int device);
size_t model_bytes(const model *m, int index); /* of a layer's part on the device, with its scales */
void   model_free(model *m);

/* ---- step.c: a forward pass of `rows` tokens of each of so many sequences as a graph, which is captured once --------------- */
typedef struct step step;
struct step_input { /* what changes from run to run: arrays in pinned memory, which the graph copies to the device */
    int32_t              *tokens;          /* [sequences][rows] */
    int32_t              *lengths, *fresh; /* [sequences] rows of the cache with those of this pass; rows of this pass */
    int32_t              *last;            /* [sequences] the row of this pass whose logits are wanted; not read where each sequence has one row */
    ptxpack_sampling_row *draw;            /* [sequences] what the token is drawn with */
    int32_t              *table;           /* [sequences][table_width] */
};
step              *step_open(model *m, int sequences, int rows);
void               step_close(step *s);
struct step_input *step_input(step *s);
const int32_t     *step_run(step *s); /* launches, waits, and returns a token for each sequence */
void               step_logits(const step *s, int sequence, uint16_t *row); /* of the last run */
void               step_choices(const step *s, int row, int32_t *experts);  /* the same, with limits.choices: [layers][top_k] */
/* The same of one sequence without a graph and without its attention, which is the caller's.  These enqueue its parts: */
step          *step_open_parts(model *m, int rows);
void           step_begin(const step *s);                          /* the input */
void           step_before(const step *s, const model_layer *layer); /* up to q, k and v, not rotated yet */
void           step_after(const step *s, const model_layer *layer);  /* from o on */
const int32_t *step_end(const step *s);                            /* the token, which is there when the stream is done */
struct step_rows {
    uint64_t qkv, o; /* [rows][heads + 2 heads_kv][head_dim]: q, k, v; [rows][heads][head_dim] */
} step_rows(const step *s);

/* ---- shard.c: long prompts on several GPUs, each of which has all weights ------------------------------------------------------ */
enum { MOST_GPUS = 64 };
typedef struct shards shards;
bool    shards_want(const limits *l, int prompt); /* whether a prompt is long enough */
shards *shards_open(model *first, const weights *w); /* loads the model into the other GPUs */
void    shards_close(shards *s);
/* Prefills tokens[count], whose k and v are then in `pages` of the first GPU, and returns the token that was drawn, and the step whose
 * logits it was drawn from.  experts: NULL, or [count][layers][top_k], which become those that the rows took. */
int32_t shards_prefill(shards *s, const int32_t *tokens, int count, const int32_t *pages, ptxpack_sampling_row draw, step **from,
                       int32_t *experts);

/* ---- serve.c: continuous batching: sequences join and leave between steps --------------------------------------------------- */
typedef struct request {
    int32_t  *tokens; /* the prompt, then what was drawn */
    int       prompt, count, most;
    uint64_t  seed;
    uint16_t *logits;  /* NULL, or a row for each token that was drawn */
    int32_t  *experts; /* NULL, or with limits.choices [tokens][layers][top_k] */
} request;
typedef struct timing {
    double prefill_ms, decode_ms;
    int    prefill_tokens, sharded_tokens, decode_steps, decode_tokens, most_at_once;
} timing;
/* The token after n others is drawn with the counter n and the request's seed, so that it does not matter who else is there. */
void serve(model *m, request *requests, int count, ptxpack_sampling_row draw, bool stop_early, timing *t);

/* ---- reference.c: the same model on the CPU in double precision: logits[count - from][vocab] of tokens[from .. count - 1] --- */
/* How far the experts that rows took are from the top_k of the largest logits of their router. */
typedef struct choices {
    int    others;          /* choices of other experts than those */
    bool   malformed;       /* one was not top_k different experts: the others below say where */
    double gap;             /* how much larger an expert's logit was that was not taken, at most, over the row's largest one; 0: never */
    int    position, layer, other, least; /* where that was; that expert, and the one of the smallest logit that was taken */
} choices;
/* experts, of a model that has any: [count][layers][top_k], those that each row takes. */
void reference_logits(const config *c, const weights *w, const int32_t *tokens, int count, int from, const int32_t *experts,
                      double *logits, choices *found);
#endif
