/* graph.c - graphs: nodes of work, and the edges between them. */
#include <stdlib.h>
#include "api.h"

/* ---- lists of nodes ------------------------------------------------------------------------------------ */
bool api_nodes_copy(struct api_nodes *to, const struct api_nodes *from)
{
    to->items = (struct api_node **)malloc((from->count + 1) * sizeof(struct api_node *));
    to->count = to->items != NULL ? from->count : 0;
    if (to->items != NULL && from->count)
        memcpy(to->items, from->items, from->count * sizeof(struct api_node *));
    return to->items != NULL;
}

bool api_nodes_have(const struct api_nodes *nodes, const struct api_node *node)
{
    size_t i = 0;
    while (i < nodes->count && nodes->items[i] != node)
        i++;
    return i < nodes->count;
}

bool api_nodes_add(struct api_nodes *nodes, struct api_node *node)
{
    if (api_nodes_have(nodes, node))
        return true;
    struct api_node **items = (struct api_node **)realloc(nodes->items,
                                                          (nodes->count + 1) * sizeof(struct api_node *));
    if (items == NULL)
        return false;
    items[nodes->count++] = node;
    nodes->items = items;
    return true;
}

/* ---- making -------------------------------------------------------------------------------------------- */
static void release_graph(struct api_handle *h) { free(((struct api_graph *)h)->nodes.items); }

static void release_node(struct api_handle *h)
{
    struct api_node *node = (struct api_node *)h;
    api_work_clear(&node->work);
    free(node->after.items);
    free(node->early.items);
}

api_result api_graph_new(struct api_context *context, struct api_graph **graph)
{
    *graph = (struct api_graph *)api_handle_new(API_KIND_GRAPH, sizeof **graph, context, NULL, release_graph);
    return *graph != NULL ? API_OK : API_OUT_OF_MEMORY;
}

static bool make_room(struct api_graph *graph)
{
    if (graph->nodes.count < graph->room)
        return true;
    size_t            room = graph->room ? 2 * graph->room : 16;
    struct api_node **items = (struct api_node **)realloc(graph->nodes.items, room * sizeof(struct api_node *));
    if (items == NULL)
        return false;
    graph->nodes.items = items;
    graph->room = room;
    return true;
}

api_result api_graph_add(struct api_graph *graph, const struct api_nodes *after, struct api_work *work,
                         struct api_node **out)
{
    struct api_node *node = NULL;
    struct api_nodes copy = {NULL, 0};
    if (make_room(graph) && api_nodes_copy(&copy, after))
        node = (struct api_node *)api_handle_new(API_KIND_NODE, sizeof *node, graph->handle.context,
                                                 &graph->handle, release_node);
    if (node == NULL) {
        free(copy.items);
        api_work_clear(work);
        return API_OUT_OF_MEMORY;
    }
    node->work = *work;
    node->after = copy;
    node->index = graph->nodes.count;
    graph->nodes.items[graph->nodes.count++] = node;
    *work = (struct api_work){.kind = API_WORK_EMPTY};
    *out = node;
    return API_OK;
}

api_result api_node_begins_early(struct api_node *node)
{
    for (size_t i = 0; i < node->after.count; i++)
        if (node->after.items[i]->work.kind == API_WORK_KERNEL)
            API_WANT(api_nodes_add(&node->early, node->after.items[i]), API_OUT_OF_MEMORY);
    return API_OK;
}

static struct api_graph *graph_of(struct CUgraph_st *handle)
{
    return (struct api_graph *)api_handle_get(API_KIND_GRAPH, handle);
}

/* A node of this graph; NULL: it is not one. */
static struct api_node *node_of(const struct api_graph *graph, struct CUgraphNode_st *handle)
{
    struct api_node *node = (struct api_node *)api_handle_get(API_KIND_NODE, handle);
    return node != NULL && node->handle.owner == &graph->handle ? node : NULL;
}

static api_result nodes_of(const struct api_graph *graph, struct CUgraphNode_st *const *handles, size_t count,
                           struct api_nodes *out)
{
    API_WANT(handles || count == 0, API_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        struct api_node *node = node_of(graph, handles[i]);
        API_WANT(node && !api_nodes_have(out, node), API_INVALID_VALUE);
        API_WANT(api_nodes_add(out, node), API_OUT_OF_MEMORY);
    }
    return API_OK;
}

/* Takes over the work. */
static api_result add(struct CUgraphNode_st **out, struct CUgraph_st *handle,
                      struct CUgraphNode_st *const *dependencies, size_t count, struct api_work *work)
{
    struct api_graph *graph = graph_of(handle);
    struct api_nodes  after = {NULL, 0};
    struct api_node  *node = NULL;
    api_result        result = out == NULL || graph == NULL ? API_INVALID_VALUE
                                                            : nodes_of(graph, dependencies, count, &after);
    if (result == API_OK)
        result = api_work_check(work);
    if (result == API_OK)
        result = api_graph_add(graph, &after, work, &node);
    else
        api_work_clear(work);
    free(after.items);
    if (result == API_OK)
        *out = (struct CUgraphNode_st *)node;
    return result;
}

static api_result clone_nodes(struct api_graph *to, const struct api_graph *from)
{
    const struct api_nodes none = {NULL, 0};
    for (size_t i = 0; i < from->nodes.count; i++) {
        struct api_work  work;
        struct api_node *node = NULL;
        API_TRY(api_work_clone(&work, &from->nodes.items[i]->work));
        API_TRY(api_graph_add(to, &none, &work, &node));
    }
    for (size_t i = 0; i < from->nodes.count; i++) {
        const struct api_node *node = from->nodes.items[i];
        for (size_t k = 0; k < node->after.count; k++)
            API_WANT(api_nodes_add(&to->nodes.items[i]->after, to->nodes.items[node->after.items[k]->index]),
                     API_OUT_OF_MEMORY);
        for (size_t k = 0; k < node->early.count; k++)
            API_WANT(api_nodes_add(&to->nodes.items[i]->early, to->nodes.items[node->early.items[k]->index]),
                     API_OUT_OF_MEMORY);
    }
    return API_OK;
}

api_result cuGraphCreate(struct CUgraph_st **out, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct api_graph *graph = NULL;
    API_WANT(out && flags == 0, API_INVALID_VALUE);
    API_TRY(api_graph_new(call.context, &graph));
    *out = (struct CUgraph_st *)graph;
    return API_OK;
}

api_result cuGraphDestroy(struct CUgraph_st *handle)
{
    API_ENTER(API_INIT);
    struct api_graph *graph = graph_of(handle);
    API_WANT(graph && !graph->captured, API_INVALID_VALUE);
    api_handle_delete(&graph->handle);
    return API_OK;
}

api_result cuGraphClone(struct CUgraph_st **out, struct CUgraph_st *graph)
{
    API_ENTER(API_INIT);
    const struct api_graph *from = graph_of(graph);
    struct api_graph       *to = NULL;
    API_WANT(out && from, API_INVALID_VALUE);
    API_TRY(api_graph_new(from->handle.context, &to));
    api_result result = clone_nodes(to, from);
    if (result != API_OK)
        api_handle_delete(&to->handle);
    else
        *out = (struct CUgraph_st *)to;
    return result;
}

/* ---- nodes of each kind -------------------------------------------------------------------------------- */
static api_result add_kernel(struct api_context *context, struct CUgraphNode_st **node,
                             struct CUgraph_st *graph, struct CUgraphNode_st *const *dependencies, size_t count,
                             const struct CUDA_KERNEL_NODE_PARAMS_v2_st *p)
{
    struct api_work work;
    API_WANT(p, API_INVALID_VALUE);
    API_TRY(api_node_kernel(context, p, &work));
    return add(node, graph, dependencies, count, &work);
}

/* The first version lacks the last two fields. */
static struct CUDA_KERNEL_NODE_PARAMS_v2_st widen(const struct CUDA_KERNEL_NODE_PARAMS_st *p)
{
    struct CUDA_KERNEL_NODE_PARAMS_v2_st wide = {0};
    if (p != NULL)
        memcpy(&wide, p, sizeof *p);
    return wide;
}

api_result cuGraphAddKernelNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                                struct CUgraphNode_st *const *dependencies, size_t count,
                                const struct CUDA_KERNEL_NODE_PARAMS_st *p)
{
    const struct CUDA_KERNEL_NODE_PARAMS_v2_st wide = widen(p);
    API_CALL(API_CONTEXT, add_kernel(call.context, node, graph, dependencies, count, p ? &wide : NULL));
}
api_result cuGraphAddKernelNode_v2(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                                   struct CUgraphNode_st *const *dependencies, size_t count,
                                   const struct CUDA_KERNEL_NODE_PARAMS_v2_st *p)
{
    API_CALL(API_CONTEXT, add_kernel(call.context, node, graph, dependencies, count, p));
}

api_result cuGraphAddMemcpyNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                                struct CUgraphNode_st *const *dependencies, size_t count,
                                const struct CUDA_MEMCPY3D_st *copy, struct CUctx_st *context)
{
    (void)context; /* all contexts share one arena */
    API_ENTER(API_CONTEXT);
    struct api_work work;
    API_TRY(api_copy_work(copy, &work));
    work.context = call.context;
    return add(node, graph, dependencies, count, &work);
}

api_result cuGraphAddMemsetNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                                struct CUgraphNode_st *const *dependencies, size_t count,
                                const struct CUDA_MEMSET_NODE_PARAMS_st *p, struct CUctx_st *context)
{
    (void)context;
    API_ENTER(API_CONTEXT);
    API_WANT(p, API_INVALID_VALUE);
    struct api_work work = {.kind = API_WORK_FILL,
                            .context = call.context,
                            .as.fill = {p->dst, p->pitch, p->width, p->height, p->value, p->elementSize}};
    return add(node, graph, dependencies, count, &work);
}

api_result cuGraphAddHostNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                              struct CUgraphNode_st *const *dependencies, size_t count,
                              const struct CUDA_HOST_NODE_PARAMS_st *p)
{
    API_ENTER(API_CONTEXT);
    API_WANT(p, API_INVALID_VALUE);
    struct api_work work = {.kind = API_WORK_HOST,
                            .context = call.context,
                            .as.host = {.function = p->fn, .data = p->userData}};
    return add(node, graph, dependencies, count, &work);
}

api_result cuGraphAddEmptyNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                               struct CUgraphNode_st *const *dependencies, size_t count)
{
    API_ENTER(API_CONTEXT);
    struct api_work work = {.kind = API_WORK_EMPTY, .context = call.context};
    return add(node, graph, dependencies, count, &work);
}

api_result cuGraphAddChildGraphNode(struct CUgraphNode_st **node, struct CUgraph_st *graph,
                                    struct CUgraphNode_st *const *dependencies, size_t count,
                                    struct CUgraph_st *child)
{
    API_ENTER(API_CONTEXT);
    const struct api_graph *inner = graph_of(child);
    struct api_work         work = {.kind = API_WORK_GRAPH, .context = call.context};
    API_WANT(inner, API_INVALID_VALUE);
    API_TRY(api_graph_order(inner, &work.as.graph.items, NULL));
    work.as.graph.count = inner->nodes.count;
    return add(node, graph, dependencies, count, &work);
}

/* ---- edges and queries --------------------------------------------------------------------------------- */
enum { EDGE_PLAIN, EDGE_PROGRAMMATIC };                             /* CUgraphDependencyType    */
enum { PORT_DEFAULT, PORT_PROGRAMMATIC, PORT_LAUNCH_ORDER, PORTS }; /* of the node before a node */

static api_result check_edge(const struct CUgraphEdgeData_st *edge, const struct api_node *from,
                             const struct api_node *to)
{
    const bool early = edge->type == EDGE_PROGRAMMATIC;
    API_WANT(edge->type <= EDGE_PROGRAMMATIC && edge->from_port < PORTS && !edge->to_port, API_INVALID_VALUE);
    API_WANT(early == (edge->from_port != PORT_DEFAULT), API_INVALID_VALUE);
    API_WANT(!early || (from->work.kind == API_WORK_KERNEL && to->work.kind == API_WORK_KERNEL),
             API_INVALID_VALUE);
    return edge->from_port == PORT_LAUNCH_ORDER ? API_NOT_SUPPORTED : API_OK;
}

static bool add_edge(struct api_node *from, struct api_node *to, const struct CUgraphEdgeData_st *edge)
{
    return api_nodes_add(&to->after, from) &&
           (edge == NULL || edge->type == EDGE_PLAIN || api_nodes_add(&to->early, from));
}

/* `edges` may be NULL: all of them are plain. */
static api_result depend(struct CUgraph_st *handle, struct CUgraphNode_st *const *from,
                         struct CUgraphNode_st *const *to, const struct CUgraphEdgeData_st *edges, size_t count)
{
    const struct api_graph *graph = graph_of(handle);
    API_WANT(graph && ((from && to) || count == 0), API_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        API_WANT(node_of(graph, from[i]) && node_of(graph, to[i]) && from[i] != to[i] &&
                     !api_nodes_have(&node_of(graph, to[i])->after, node_of(graph, from[i])),
                 API_INVALID_VALUE);
    for (size_t i = 0; edges != NULL && i < count; i++)
        API_TRY(check_edge(&edges[i], node_of(graph, from[i]), node_of(graph, to[i])));
    for (size_t i = 0; i < count; i++)
        API_WANT(add_edge(node_of(graph, from[i]), node_of(graph, to[i]), edges != NULL ? &edges[i] : NULL),
                 API_OUT_OF_MEMORY);
    return API_OK;
}

/* As many as there is room for, then NULLs.  Without a list: only their number. */
static api_result list_nodes(struct CUgraph_st *handle, struct CUgraphNode_st **out, size_t *count, bool roots)
{
    const struct api_graph *graph = graph_of(handle);
    size_t                  found = 0;
    API_WANT(graph && count, API_INVALID_VALUE);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (roots && graph->nodes.items[i]->after.count)
            continue;
        if (out != NULL && found < *count)
            out[found] = (struct CUgraphNode_st *)graph->nodes.items[i];
        found++;
    }
    for (size_t i = found; out != NULL && i < *count; i++)
        out[i] = NULL;
    *count = out != NULL && *count < found ? *count : found;
    return API_OK;
}

api_result cuGraphAddDependencies(struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                                  struct CUgraphNode_st *const *to, size_t count)
{
    API_CALL(API_INIT, depend(graph, from, to, NULL, count));
}
api_result cuGraphAddDependencies_v2(struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                                     struct CUgraphNode_st *const *to, const struct CUgraphEdgeData_st *edges,
                                     size_t count)
{
    API_CALL(API_INIT, depend(graph, from, to, edges, count));
}

api_result cuGraphNodeGetType(struct CUgraphNode_st *handle, unsigned int *type)
{
    API_ENTER(API_INIT);
    const struct api_node *node = (const struct api_node *)api_handle_get(API_KIND_NODE, handle);
    API_WANT(node && type, API_INVALID_VALUE);
    *type = node->work.kind == API_WORK_WAIT_VALUE ? API_WORK_MEMORY_OPERATIONS
            : node->work.kind == API_WORK_TASK     ? API_WORK_KERNEL /* what NCCL's are */
                                                   : node->work.kind;
    return API_OK;
}

api_result cuGraphGetNodes(struct CUgraph_st *graph, struct CUgraphNode_st **nodes, size_t *count)
{
    API_CALL(API_INIT, list_nodes(graph, nodes, count, false));
}
api_result cuGraphGetRootNodes(struct CUgraph_st *graph, struct CUgraphNode_st **nodes, size_t *count)
{
    API_CALL(API_INIT, list_nodes(graph, nodes, count, true));
}

/* Without a place for their data, programmatic edges are an error. */
static api_result list_edges(struct CUgraph_st *handle, struct CUgraphNode_st **from,
                             struct CUgraphNode_st **to, struct CUgraphEdgeData_st *edges, size_t *count)
{
    const struct api_graph *graph = graph_of(handle);
    size_t                  found = 0;
    API_WANT(graph && count && !from == !to && (from || !edges), API_INVALID_VALUE);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct api_node *node = graph->nodes.items[i];
        for (size_t k = 0; k < node->after.count; k++, found++) {
            const bool early = api_nodes_have(&node->early, node->after.items[k]);
            if (from == NULL || found >= *count)
                continue;
            API_WANT(edges || !early, API_LOSSY_QUERY);
            from[found] = (struct CUgraphNode_st *)node->after.items[k];
            to[found] = (struct CUgraphNode_st *)node;
            if (edges != NULL)
                edges[found] = (struct CUgraphEdgeData_st){.from_port = early ? PORT_PROGRAMMATIC
                                                                              : PORT_DEFAULT,
                                                           .type = early ? EDGE_PROGRAMMATIC : EDGE_PLAIN};
        }
    }
    *count = from != NULL && *count < found ? *count : found;
    return API_OK;
}

api_result cuGraphGetEdges(struct CUgraph_st *graph, struct CUgraphNode_st **from, struct CUgraphNode_st **to,
                           size_t *count)
{
    API_CALL(API_INIT, list_edges(graph, from, to, NULL, count));
}
api_result cuGraphGetEdges_v2(struct CUgraph_st *graph, struct CUgraphNode_st **from,
                              struct CUgraphNode_st **to, struct CUgraphEdgeData_st *edges, size_t *count)
{
    API_CALL(API_INIT, list_edges(graph, from, to, edges, count));
}
