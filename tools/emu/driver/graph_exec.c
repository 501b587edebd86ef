/* graph_exec.c - executable graphs: the work of the nodes in an order that respects the edges. */
#include <stdlib.h>
#include "api.h"

struct source {
    const void *node;
    uint64_t    id;
};
struct api_exec {
    struct api_handle handle;
    struct api_work   work;  /* API_WORK_GRAPH: all of it */
    struct source    *nodes; /* the node of each item */
};

/* ---- the order ----------------------------------------------------------------------------------------- */
/* Do all nodes before it have a place? */
static bool ready(const struct api_node *node, const bool *placed)
{
    for (size_t i = 0; i < node->after.count; i++)
        if (!placed[node->after.items[i]->index])
            return false;
    return true;
}

/* Nodes in the order of their creation, as far as the edges allow.  False: there is a cycle. */
static bool sort(const struct api_graph *graph, struct api_node **order, bool *placed)
{
    size_t done = 0, before;
    do {
        before = done;
        for (size_t i = 0; i < graph->nodes.count; i++)
            if (!placed[i] && ready(graph->nodes.items[i], placed)) {
                placed[i] = true;
                order[done++] = graph->nodes.items[i];
            }
    } while (done != before);
    return done == graph->nodes.count;
}

/* A kernel whose only edge is programmatic may overlap with the kernel before it if that runs just before it, and
 * counts as after all others otherwise. */
static bool begins_early(struct api_node *const *order, size_t i)
{
    const struct api_node *node = order[i];
    return i && node->after.count == 1 && node->early.count == 1 && node->early.items[0] == order[i - 1];
}

static api_result clone_works(struct api_node *const *order, size_t count, struct api_work *works)
{
    api_result result = API_OK;
    for (size_t i = 0; i < count && result == API_OK; i++) {
        result = api_work_clone(&works[i], &order[i]->work);
        if (result == API_OK && begins_early(order, i))
            works[i].as.kernel.launch.dependent = true;
    }
    return result;
}

api_result api_graph_order(const struct api_graph *graph, struct api_work **works, struct api_node ***nodes)
{
    size_t            count = graph->nodes.count;
    struct api_work  *items = (struct api_work *)calloc(count + 1, sizeof *items);
    struct api_node **order = (struct api_node **)calloc(count + 1, sizeof(struct api_node *));
    bool             *placed = (bool *)calloc(count + 1, sizeof *placed);
    api_result        result = API_OUT_OF_MEMORY;
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i].kind = API_WORK_EMPTY;
    if (items != NULL && order != NULL && placed != NULL)
        result = sort(graph, order, placed) ? clone_works(order, count, items) : API_INVALID_VALUE;
    free(placed);
    if (result == API_OK && nodes != NULL)
        *nodes = order;
    else
        free(order);
    if (result == API_OK)
        *works = items;
    else if (items != NULL)
        api_works_free(items, count);
    return result;
}

/* ---- instantiating ------------------------------------------------------------------------------------- */
static void release_exec(struct api_handle *h)
{
    struct api_exec *exec = (struct api_exec *)h;
    api_work_clear(&exec->work);
    free(exec->nodes);
}

static api_result remember(struct api_exec *exec, struct api_node *const *order, size_t count)
{
    exec->nodes = (struct source *)calloc(count + 1, sizeof *exec->nodes);
    API_WANT(exec->nodes, API_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++) {
        exec->nodes[i].node = order[i];
        exec->nodes[i].id = order[i]->handle.id;
    }
    return API_OK;
}

static api_result instantiate(struct api_context *context, struct CUgraphExec_st **out,
                              struct CUgraph_st *handle, unsigned long long flags)
{
    enum { FLAGS = 15 };
    const struct api_graph *graph = (const struct api_graph *)api_handle_get(API_KIND_GRAPH, handle);
    struct api_node       **order = NULL;
    API_WANT(out && graph && flags <= FLAGS, API_INVALID_VALUE);
    struct api_exec *exec = (struct api_exec *)api_handle_new(API_KIND_EXEC, sizeof *exec, context, NULL,
                                                              release_exec);
    API_WANT(exec, API_OUT_OF_MEMORY);
    exec->work.kind = API_WORK_GRAPH;
    exec->work.context = context;
    api_result result = api_graph_order(graph, &exec->work.as.graph.items, &order);
    if (result == API_OK) {
        exec->work.as.graph.count = graph->nodes.count;
        result = remember(exec, order, graph->nodes.count);
    }
    free(order);
    if (result != API_OK)
        api_handle_delete(&exec->handle);
    else
        *out = (struct CUgraphExec_st *)exec;
    return result;
}

static api_result instantiate_log(struct api_context *context, struct CUgraphExec_st **out,
                                  struct CUgraph_st *graph, struct CUgraphNode_st **culprit, char *log,
                                  size_t bytes)
{
    if (culprit != NULL)
        *culprit = NULL;
    if (log != NULL && bytes)
        *log = '\0';
    return instantiate(context, out, graph, 0);
}

/* ---- use ----------------------------------------------------------------------------------------------- */
static struct api_exec *exec_of(struct CUgraphExec_st *handle)
{
    return (struct api_exec *)api_handle_get(API_KIND_EXEC, handle);
}

api_result api_node_kernel(struct api_context *context, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *p,
                           struct api_work *work)
{
    const struct api_shape shape = {.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                    .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                    .shared = p->sharedMemBytes};
    struct CUfunc_st      *function = p->func != NULL ? p->func : (struct CUfunc_st *)p->kern;
    return api_kernel_work(context, function, &shape, p->kernelParams, p->extra, work);
}

static api_result set_kernel(struct api_context *context, struct CUgraphExec_st *handle,
                             const struct CUgraphNode_st *node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *p)
{
    struct api_exec *exec = exec_of(handle);
    struct api_work  work;
    size_t           i = 0;
    API_WANT(exec && p, API_INVALID_VALUE);
    while (i < exec->work.as.graph.count &&
           (exec->nodes[i].node != node || api_handle_same(API_KIND_NODE, node, exec->nodes[i].id) == NULL))
        i++;
    API_WANT(i < exec->work.as.graph.count && exec->work.as.graph.items[i].kind == API_WORK_KERNEL,
             API_INVALID_VALUE);
    API_TRY(api_node_kernel(context, p, &work));
    api_result result = api_work_check(&work);
    if (result != API_OK) {
        api_work_clear(&work);
        return result;
    }
    work.as.kernel.launch.dependent = exec->work.as.graph.items[i].as.kernel.launch.dependent;
    api_work_clear(&exec->work.as.graph.items[i]);
    exec->work.as.graph.items[i] = work;
    return API_OK;
}

api_result cuGraphInstantiate(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                              struct CUgraphNode_st **culprit, char *log, size_t bytes)
{
    API_CALL(API_CONTEXT, instantiate_log(call.context, exec, graph, culprit, log, bytes));
}
api_result cuGraphInstantiate_v2(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                 struct CUgraphNode_st **culprit, char *log, size_t bytes)
{
    API_CALL(API_CONTEXT, instantiate_log(call.context, exec, graph, culprit, log, bytes));
}
api_result cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                       unsigned long long flags)
{
    API_CALL(API_CONTEXT, instantiate(call.context, exec, graph, flags));
}

api_result cuGraphInstantiateWithParams(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                        struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *parameters)
{
    API_ENTER(API_CONTEXT);
    API_WANT(parameters, API_INVALID_VALUE);
    api_result result = instantiate(call.context, exec, graph, parameters->flags);
    parameters->hErrNode_out = NULL;
    parameters->result_out = result == API_OK ? 0 : 1; /* CUgraphInstantiateResult: an error */
    return result;
}

api_result cuGraphLaunch(struct CUgraphExec_st *handle, struct CUstream_st *stream)
{
    API_ENTER(API_CONTEXT);
    struct api_exec   *exec = exec_of(handle);
    struct api_stream *s = NULL;
    API_WANT(exec, API_INVALID_VALUE);
    API_TRY(api_stream_get(call.context, stream, &s));
    if (s->capture == NULL) {
        if (s->legacy)
            API_TRY(api_capture_forbids_legacy(call.context));
        return api_do_or_queue(s, &exec->work);
    }
    struct api_work work;
    API_TRY(api_work_clone(&work, &exec->work));
    return api_submit(s, &work);
}

api_result cuGraphUpload(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *s = NULL;
    API_WANT(exec_of(exec), API_INVALID_VALUE);
    API_TRY(api_stream_get(call.context, stream, &s));
    return s->capture != NULL ? API_STREAM_CAPTURE_UNSUPPORTED : API_OK;
}

api_result cuGraphExecDestroy(struct CUgraphExec_st *handle)
{
    API_ENTER(API_INIT);
    struct api_exec *exec = exec_of(handle);
    API_WANT(exec, API_INVALID_VALUE);
    api_handle_delete(&exec->handle);
    return API_OK;
}

api_result cuGraphExecKernelNodeSetParams(struct CUgraphExec_st *exec, struct CUgraphNode_st *node,
                                          const struct CUDA_KERNEL_NODE_PARAMS_st *parameters)
{
    API_ENTER(API_CONTEXT);
    struct CUDA_KERNEL_NODE_PARAMS_v2_st wide = {0};
    API_WANT(parameters, API_INVALID_VALUE);
    memcpy(&wide, parameters, sizeof *parameters);
    return set_kernel(call.context, exec, node, &wide);
}

api_result cuGraphExecKernelNodeSetParams_v2(struct CUgraphExec_st *exec, struct CUgraphNode_st *node,
                                             const struct CUDA_KERNEL_NODE_PARAMS_v2_st *parameters)
{
    API_CALL(API_CONTEXT, set_kernel(call.context, exec, node, parameters));
}
