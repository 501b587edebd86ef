/* api.h - what the files of the driver share: entering and leaving a call, and the objects behind the handles.
 *
 *   api_result cuCtxGetDevice(int *device)
 *   {
 *       API_ENTER(API_CONTEXT | API_ANY_STATE);
 *       API_WANT(device, API_INVALID_VALUE);
 *       *device = call.context->device->ordinal;
 *       return API_OK;
 *   }
 *
 * A call takes the driver's only lock, finds its context, and returns the sticky error of that context if it
 * has one, so that the called functions are plain sequential code.  Work is done when it is enqueued, on the
 * caller's thread, or goes to a queue (queue.c).
 *
 * Handles   one table has all live objects.  A handle is looked up there before it is used, so that a stale or
 *           foreign handle gives an error. */
#ifndef EMU_API_H
#define EMU_API_H
#include <stdatomic.h>
#include <stdbool.h>
#include "layouts.h"
#include "tools/emu/run/grid.h"

enum { /* CUresult, without CUDA_ERROR_ */
       API_OK,
#define ERROR(name, value, text) API_##name = value,
#include "errors.def"
#undef ERROR
};

/* ---- calls --------------------------------------------------------------------------------------------- */
enum {
    API_INIT = 0,      /* cuInit must have been called                                        */
    API_CONTEXT = 1,   /* a context must be current, without a sticky error                   */
    API_ANY_STATE = 2, /* ... or with one: for queries and for destroying                     */
    API_UNSAFE = 4     /* may synchronize: not allowed while capturing, see capture.c         */
};
struct api_context;
struct api_call {
    struct api_context *context;
    bool                entered;
};
api_result api_enter(struct api_call *call, unsigned int need);
void       api_leave(struct api_call *call);
/* Enter the driver until the end of the function, which may return anywhere. */
#define API_ENTER(need)                                                       \
    __attribute__((cleanup(api_leave))) struct api_call call = {NULL, false}; \
    API_TRY(api_enter(&call, need))
#define API_CALL(need, expression) \
    API_ENTER(need);               \
    return (expression)
#define API_TRY(expression)             \
    do {                                \
        api_result try_ = (expression); \
        if (try_ != API_OK)             \
            return try_;                \
    } while (0)
#define API_WANT(condition, otherwise) \
    do {                               \
        if (!(condition))              \
            return otherwise;          \
    } while (0)

/* The settings; never NULL after api_enter. */
const struct emu_settings *api_settings(void);
/* Has this process, not a parent of it, called cuInit? */
bool api_is_initialised(void);

/* The driver's lock, for queue.c: work that runs without it, and waiting for the end of such work.  api_wait_moved
 * releases the lock until api_moved is called, or the time is over. */
void api_lock(void);
void api_unlock(void);
void api_moved(void);
void api_wait_moved(long nanoseconds);

/* ---- handles ------------------------------------------------------------------------------------------- */
enum api_kind {
    API_KIND_CONTEXT,
    API_KIND_STREAM,
    API_KIND_EVENT,
    API_KIND_MODULE,
    API_KIND_FUNCTION,
    API_KIND_LIBRARY,
    API_KIND_KERNEL,
    API_KIND_LINK,
    API_KIND_GRAPH,
    API_KIND_NODE,
    API_KIND_EXEC,
    API_KIND_IMPORT
};
struct api_handle { /* every object begins with one */
    enum api_kind       kind;
    uint64_t            id;                   /* never used twice */
    struct api_context *context;              /* NULL: none */
    struct api_handle  *owner;                /* this object is deleted with it; NULL: none */
    void (*release)(struct api_handle *self); /* frees what the object owns; may be NULL */
    struct api_handle *next;                  /* for handle.c only */
};
/* A zeroed object of `bytes` that begins with a handle; NULL: out of memory. */
void *api_handle_new(enum api_kind kind, size_t bytes, struct api_context *context, struct api_handle *owner,
                     void (*release)(struct api_handle *));
/* The live object of this kind at this address; NULL: there is none. */
void *api_handle_get(enum api_kind kind, const void *handle);
/* The object if it still has this id; NULL: it was deleted. */
void *api_handle_same(enum api_kind kind, const void *handle, uint64_t id);
/* Delete the object and all that it owns. */
void api_handle_delete(struct api_handle *handle);
/* Delete all objects of a context, but not the context itself. */
void api_handle_delete_context(const struct api_context *context);
/* Iterate over the objects of one kind; next(NULL) is the first.  No object may be added or deleted
 * meanwhile. */
struct api_handle *api_handle_next(enum api_kind kind, const struct api_handle *after);

/* ---- devices and contexts ------------------------------------------------------------------------------ */
struct api_device {
    int                 ordinal;
    struct api_context *primary;
    unsigned int        primary_flags;
    uint64_t            used; /* bytes */
    bool                lost;
};
struct api_device *api_device(int ordinal); /* NULL: no such device */
/* The device in masks of devices. */
static inline uint32_t api_device_bit(const struct api_device *device) { return 1u << device->ordinal; }

enum { API_LIMITS = 8 };
struct api_context {
    struct api_handle  handle;
    struct api_device *device;
    bool               primary;
    unsigned int       references, flags, cache_config;
    uint32_t           peers;  /* bits of the devices whose memory its kernels may access, too */
    api_result         sticky; /* the sticky error that all calls return from now on */
    size_t             limits[API_LIMITS];
    uint64_t           used;                /* bytes of device memory, without that of its modules */
    struct api_stream *legacy, *per_thread; /* the default streams */
    struct judge_grid *kept; /* what the judge keeps of the last kernel for one that may overlap with it ... */
    uint64_t           kept_stream; /* ... in the same stream */
    uint64_t           works_ended; /* counts api_work_ended */
    bool               running;     /* a kernel from a queue */
    atomic_bool        ending;      /* it is being deleted */
};

/* The state of a thread. */
enum { API_CONTEXT_STACK = 64 };
struct api_thread {
    struct {
        struct api_context *context;
        uint64_t            id;
    } stack[API_CONTEXT_STACK];
    int          depth;
    unsigned int capture_mode; /* CUstreamCaptureMode: how strict API_UNSAFE is */
    bool         in_callback;  /* within a callback of a stream, where calls are not permitted */
};
struct api_thread *api_thread(void);
/* The current context: API_INVALID_CONTEXT without one, API_CONTEXT_IS_DESTROYED after its end. */
api_result api_current(struct api_context **context);
api_result api_context_new(struct api_device *device, unsigned int flags, struct api_context **context);
void       api_context_delete(struct api_context *context);
/* Kernels of the context may access memory of the device from now on; *enabled: its bit, if they could not before. */
api_result api_peer_enable(struct api_context *context, const struct api_device *peer, uint32_t *enabled);
/* The context is deleted: no other one has access to its memory any more. */
void api_peer_forget(const struct api_context *context);

/* ---- memory -------------------------------------------------------------------------------------------- */
/* Is [address, address + bytes) device memory, host memory that the driver does not know, or neither (an
 * invalid range among the device's addresses)? */
enum api_memory { API_MEMORY_DEVICE, API_MEMORY_HOST, API_MEMORY_BAD };
enum api_memory api_memory_of(uint64_t address, uint64_t bytes);
api_result      api_memory_alloc(struct api_context *context, int kind, uint64_t bytes, uint64_t *address);
api_result      api_memory_free(struct api_context *context, uint64_t address);
/* Has this process ever shared memory with another one?  Then its kernels may poll what that one writes. */
bool api_memory_is_shared(void);
/* A line that says why a handle of another process cannot be opened, after ipc_handle_open. */
void api_report_unopened(const char *what, int process);
/* Everything that the context has allocated. */
void api_memory_free_all(struct api_context *context);

/* ---- work ---------------------------------------------------------------------------------------------- */
enum api_work_kind { /* CUgraphNodeType */
                     API_WORK_KERNEL,
                     API_WORK_COPY,
                     API_WORK_FILL,
                     API_WORK_HOST,
                     API_WORK_GRAPH,
                     API_WORK_EMPTY,
                     API_WORK_WAIT_EVENT,
                     API_WORK_RECORD_EVENT,
                     API_WORK_MEMORY_OPERATIONS = 12,
                     API_WORK_WRITE_VALUE = API_WORK_MEMORY_OPERATIONS,
                     API_WORK_WAIT_VALUE, /* from here on: of the emulated driver */
                     API_WORK_FREE,
                     API_WORK_TASK
};
struct ptxpack_emu_task;
struct api_side {
    uint64_t address;
    size_t   pitch, slice;
}; /* slice: bytes from plane to plane */
struct api_work {
    enum api_work_kind  kind;
    struct api_context *context;
    union {
        struct {
            struct api_function *function;
            uint64_t             function_id;
            struct emu_launch    launch; /* .parameters is malloc'ed */
        } kernel;
        struct {
            struct api_side to, from;
            size_t          width, height, depth;
        } copy;
        struct {
            uint64_t     address;
            size_t       pitch, width, height;
            unsigned int value, element;
        } fill;
        struct {
            api_host_function   *function;
            api_stream_callback *callback;
            struct CUstream_st  *stream;
            void                *data;
        } host;
        struct {
            struct api_work *items;
            size_t           count;
        } graph;
        struct {
            struct api_event *event;
            uint64_t          id;
            uint64_t          ticket; /* which record of it; 0: the last one when the work begins */
        } event;
        struct {
            uint64_t     address, value;
            unsigned int flags;
            bool         wide; /* 64 bits */
        } value;
        struct {
            const struct ptxpack_emu_task *hooks;
            void                          *operation, *run; /* run: of an item in a queue */
        } task;
    } as;
};
/* Check it as far as possible before it runs. */
api_result api_work_check(const struct api_work *work);
/* Do it now.  A failure on the device becomes the context's sticky error and is not returned here, unless
 * PTXPACK_EMU_ERRORS says that it is the launch's. */
api_result api_work_run(const struct api_work *work, const struct api_stream *stream);
/* A kernel, without the lock; the launch asks may_change where it only polls. */
api_result api_work_run_kernel(const struct api_work *work, const struct api_stream *stream,
                               emu_may_change *may_change, void *data);
/* A function of the host, which may not call the driver. */
void api_work_call(const struct api_work *work, api_result sticky);
/* Does it wait for something that the streams before it do not imply?  Then it must not hold up its caller. */
bool api_work_waits(const struct api_work *work);
/* May it run now?  Only its stream holds it up otherwise. */
bool api_work_ready(const struct api_work *work);
/* The comparison of a memory operation. */
bool api_value_reached(const struct api_work *work);
void api_value_write(const struct api_work *work);
/* All work so far has ended, or the next kernel cannot begin before it has: the judge forgets it. */
void       api_work_ended(struct api_context *context);
api_result api_work_clone(struct api_work *to, const struct api_work *from);
void       api_work_clear(struct api_work *work);
/* A copy as described to cuMemcpy3D. */
api_result api_copy_work(const struct CUDA_MEMCPY3D_st *copy, struct api_work *work);
/* Give the work to a stream: it is done now, queued, or recorded if the stream is captured.  Clears *work. */
api_result api_submit(struct api_stream *stream, struct api_work *work);
/* The same, but for the checks and the capture. */
api_result api_do_or_queue(struct api_stream *stream, struct api_work *work);

/* Of API_WORK_TASK (task.h).  True: the run has ended; *moved: it did something. */
bool       api_task_step(struct api_work *work, bool *moved);
api_result api_task_begin(struct api_work *work);
void       api_task_clear(struct api_work *work);
void       api_task_clone(struct api_work *work);

/* ---- queues -------------------------------------------------------------------------------------------- */
/* The stream may have a queue, from its making to its end. */
void api_queue_add(struct api_stream *stream);
void api_queue_remove(struct api_stream *stream);
/* Must it go to a queue, or may it be done at once? */
bool api_must_queue(const struct api_work *work);
/* Takes over the work of other kinds than graphs, unless it fails. */
api_result api_enqueue(struct api_stream *stream, struct api_work *work);
/* Do all that is ready. */
void api_progress(void);
/* Is there work that cuStreamSynchronize waits for? */
bool api_stream_busy(const struct api_stream *stream);
bool api_context_busy(const struct api_context *context);
/* Is this record of the event still in a queue? */
bool api_event_pending(const void *event, uint64_t id, uint64_t ticket);
/* Is there anything in a queue that concerns the event? */
bool api_event_queued(const void *event, uint64_t id);
/* Wait until the work of a stream, or of all streams of a context, has ended.  Other calls may run meanwhile.  Returns
 * an error of that work which no call has returned yet, or the context's sticky one. */
api_result api_finish_stream(struct api_stream *stream);
api_result api_finish_context(struct api_context *context);
/* Progress, and wait for something to end, a little. */
void api_pause(void);
/* Drop what a context has enqueued, and wait for what runs. */
void api_abandon(struct api_context *context);

/* ---- streams, events, captures ------------------------------------------------------------------------- */
struct api_nodes {
    struct api_node **items;
    size_t            count;
};
struct api_stream {
    struct api_handle   handle;
    unsigned int        flags;
    int                 priority;
    bool                legacy;
    struct api_capture *capture;        /* NULL: work is done, not recorded */
    struct api_nodes    tips;           /* the nodes on which the next one will depend */
    struct api_item    *first, *last;   /* of the queue */
    bool                running;        /* the first one runs */
    bool                destroyed;      /* it lives on until the queue is empty */
    api_result          late;           /* an error of an item, for the call that waits for it */
    struct api_stream  *before, *after; /* in the list of queue.c */
};
struct api_event {
    struct api_handle handle;
    unsigned int      flags;
    bool              recorded;
    bool              destroyed; /* it lives on until no queue has it any more */
    uint64_t          records;   /* calls that recorded it: the tickets */
    struct ipc_event *shared; /* which other processes may open, with tickets of its own; NULL: they may not */
    uint64_t          nanoseconds; /* when */
    uint64_t          capture_id;  /* id of the capture that recorded it last; 0: none */
    struct api_nodes  tips;
};
struct api_stream *api_stream_new(struct api_context *context); /* NULL: out of memory */
/* A stream of the call's context: 0, 1 (legacy), 2 (per thread), or a created one. */
api_result api_stream_get(struct api_context *context, struct CUstream_st *handle, struct api_stream **stream);
struct api_event *api_event_get(struct CUevent_st *handle); /* NULL: there is none */
/* A new ticket for a record of the event; 1 if the event was deleted. */
uint64_t api_event_ticket(const struct api_work *record);
/* The ticket of the last record; 0: there is none. */
uint64_t api_event_last(const struct api_event *event);
/* The record was reached; or (`lost`) it never will be, because its context has failed. */
api_result api_event_reach(const struct api_work *record, bool lost);
/* Has the record that the work waits for not been reached?  The result is that of waiting for it then. */
bool       api_event_due(const struct api_work *wait);
api_result api_event_result(const struct api_work *wait);
/* " or process", if other processes may record it, for messages. */
const char *api_event_others(const struct api_work *wait);
/* Delete what was destroyed while a queue had it. */
void api_event_bury(void);

struct api_capture {
    uint64_t            id;
    struct api_graph   *graph;
    struct api_stream  *origin;
    unsigned int        mode;
    const void         *thread; /* its api_thread */
    bool                invalid;
    struct api_capture *next;
};
/* A call that the current thread may not make during a capture: 900, which invalidates the capture. */
api_result api_capture_forbids(void);
/* A synchronizing call on this stream (NULL: on all of the context): 900 or 906 if it is captured. */
api_result api_capture_forbids_wait(struct api_context *context, struct api_stream *stream);
/* Work in the legacy stream while a stream that synchronises with it is captured: 906. */
api_result api_capture_forbids_legacy(struct api_context *context);
/* A synchronizing call on an event that was recorded in a capture: 907, or 1 if the capture has ended. */
api_result api_capture_forbids_event(const struct api_event *event);
api_result api_capture_add(struct api_stream *stream, struct api_work *work);
api_result api_capture_record(struct api_stream *stream, struct api_event *event);
api_result api_capture_wait(struct api_stream *stream, struct api_event *event);
/* The stream is destroyed, which invalidates its capture. */
void api_capture_forget(struct api_stream *stream);

/* ---- graphs -------------------------------------------------------------------------------------------- */
struct api_node {
    struct api_handle handle; /* owner: the graph */
    struct api_work   work;
    struct api_nodes  after; /* the nodes before it */
    struct api_nodes
           early; /* those of them whose edges are programmatic: it may begin before they have ended */
    size_t index; /* in the graph */
};
struct api_graph {
    struct api_handle handle;
    struct api_nodes  nodes;
    size_t            room;
    bool              captured; /* a capture still records into it */
};
api_result api_graph_new(struct api_context *context, struct api_graph **graph);
/* Takes over the work, and always clears it. */
api_result api_graph_add(struct api_graph *graph, const struct api_nodes *after, struct api_work *work,
                         struct api_node **node);
/* Make the edges that lead to it programmatic, as far as they come from kernels. */
api_result api_node_begins_early(struct api_node *node);
/* Clones of the works in an order that respects the edges; 1: there is no such order.  `nodes` may be NULL. */
api_result api_graph_order(const struct api_graph *graph, struct api_work **works, struct api_node ***nodes);
/* The work of a kernel node. */
api_result api_node_kernel(struct api_context *context, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *parameters,
                           struct api_work *work);
void       api_works_free(struct api_work *works, size_t count);
bool       api_nodes_copy(struct api_nodes *to, const struct api_nodes *from);
bool       api_nodes_add(struct api_nodes *nodes, struct api_node *node); /* once */
bool       api_nodes_have(const struct api_nodes *nodes, const struct api_node *node);

/* ---- modules ------------------------------------------------------------------------------------------- */
struct api_function {
    struct api_handle    handle; /* owner: the module */
    struct emu_function *code;
    struct api_module   *module;
    unsigned int         cache_config;
    unsigned int         cluster[3]; /* set by attributes; zeros: not set */
};
struct api_module {
    struct api_handle     handle;
    struct emu_module    *code;
    struct api_function **functions; /* in the order of code->functions, made on demand */
};
struct api_jit;
/* The environment loads libraries lazily: the first use returns errors of their code. */
bool api_loads_lazily(void);
/* malloc'ed, with a NUL byte after it. */
api_result api_file_read(const char *path, char **text, size_t *bytes);
api_result api_module_new(struct api_context *context, const void *image, const struct api_jit *jit,
                          struct api_handle *owner, struct api_module **module);
api_result api_module_function(struct api_module *module, struct emu_function *code,
                               struct api_function **function);
api_result api_module_global(struct api_module *module, const char *name, api_address *address, size_t *bytes);
/* A CUfunction, or a CUkernel cast to one. */
api_result api_function_get(struct api_context *context, struct CUfunc_st *handle,
                            struct api_function **function);
/* The function of a kernel in a context. */
api_result api_kernel_function(struct api_context *context, struct CUkern_st *handle,
                               struct api_function **function);

/* ---- functions ----------------------------------------------------------------------------------------- */
api_result api_function_attribute(const struct api_function *f, unsigned int attribute, int *value);
api_result api_function_set_attribute(struct api_function *f, unsigned int attribute, int value);
api_result api_function_parameter(const struct emu_function *code, size_t index, size_t *offset, size_t *bytes);
/* The work of a kernel, from the arguments of a launch. */
struct api_shape {
    unsigned int grid[3], block[3], cluster[3], shared;
    bool         cooperative;
    bool         dependent; /* it may begin before the kernel before it in the stream has ended */
};
api_result api_kernel_work(struct api_context *context, struct CUfunc_st *handle, const struct api_shape *shape,
                           void **parameters, void **extra, struct api_work *work);
/* The shape of a cuLaunchKernelEx; 1: it has unknown attributes. */
api_result api_launch_shape(const struct CUlaunchConfig_st *config, struct api_shape *shape);
#endif
