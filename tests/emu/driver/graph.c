/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c -- graphs: works that were captured, to be done again and again
 *
 * A launch does them one after the other in the order of their capture, which is one that their
 * dependencies allow. Graphs are made by capture only; none can be changed.
 */
#include <string.h>

#include "emu.h"

struct CUgraphExec_st {
    unsigned held;
    struct work **works;
    size_t count;
};

struct CUuserObject_st {
    unsigned held;
    CUhostFn destroy;
    void *data;
};

struct replay {
    struct work work;
    CUgraphExec exec;
};

bool emu_nodes_add(struct nodes *nodes, const struct nodes *more)
{
    for (size_t i = 0; i < more->count; i++) {
        CUgraphNode *larger = realloc(nodes->node, (nodes->count + 1) * sizeof(*larger));
        size_t k = 0;

        if (!larger)
            return false;
        nodes->node = larger;
        while (k < nodes->count && larger[k] != more->node[i])
            k++;
        if (k == nodes->count)
            larger[nodes->count++] = more->node[i];
    }
    return true;
}

bool emu_nodes_set(struct nodes *nodes, const struct nodes *those)
{
    struct nodes made = {NULL, 0};

    if (!emu_nodes_add(&made, those)) {
        free(made.node);
        return false;
    }
    free(nodes->node);
    *nodes = made;
    return true;
}

CUgraph emu_graph(void)
{
    return calloc(1, sizeof(struct CUgraph_st));
}

/* Takes the work over if it returns a node. */
CUgraphNode emu_graph_add(CUgraph graph, struct work *work, const struct nodes *after)
{
    CUgraphNode node = calloc(1, sizeof(*node));
    struct nodes one = {&node, 1};

    if (!node)
        return NULL;
    if (!emu_nodes_add(&node->after, after) || !emu_nodes_add(&graph->nodes, &one)) {
        free(node->after.node);
        free(node);
        return NULL;
    }
    node->work = work;
    return node;
}

static void user_drop(CUuserObject object, unsigned count)
{
    object->held -= count > object->held ? object->held : count;
    if (object->held)
        return;
    pthread_mutex_unlock(&emu_lock);
    object->destroy(object->data);
    pthread_mutex_lock(&emu_lock);
    free(object);
}

void emu_graph_drop(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNode node = graph->nodes.node[i];

        if (node->work)
            emu_work_drop(node->work);
        free(node->after.node);
        free(node);
    }
    for (unsigned i = 0; i < graph->users_count; i++)
        user_drop(graph->users[i].object, graph->users[i].count);
    free(graph->users);
    free(graph->nodes.node);
    free(graph);
}

API cuGraphCreate(CUgraph *graph, unsigned flags)
{
    CUresult error = emu_enter();
    CUgraph made;

    if (error)
        return error;
    made = flags ? NULL : emu_graph();
    if (made)
        *graph = made;
    return emu_leave(made ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

API cuGraphDestroy(CUgraph graph)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!graph)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_graph_drop(graph);
    return emu_leave(CUDA_SUCCESS);
}

static CUresult give(const struct nodes *from, CUgraphNode *nodes, CUgraphEdgeData *edges,
                     size_t *count)
{
    size_t fit = from->count;

    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes) {
        fit = *count < fit ? *count : fit;
        memcpy(nodes, from->node, fit * sizeof(*nodes));
        if (edges)
            memset(edges, 0, fit * sizeof(*edges));
    }
    *count = fit;
    return CUDA_SUCCESS;
}

API cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    CUresult error = emu_enter();

    return error ? error : emu_leave(give(&graph->nodes, nodes, NULL, count));
}

API cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    CUresult error = emu_enter();

    return error ? error : emu_leave(give(&node->after, nodes, NULL, count));
}

API cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                  size_t *count)
{
    CUresult error = emu_enter();

    return error ? error : emu_leave(give(&node->after, nodes, edges, count));
}

/* ---- execution ---- */

static void exec_drop(CUgraphExec exec)
{
    if (--exec->held)
        return;
    for (size_t i = 0; i < exec->count; i++)
        emu_work_drop(exec->works[i]);
    free(exec->works);
    free(exec);
}

API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUresult error = emu_enter();
    CUgraphExec made;

    if (error)
        return error;
    if (!exec || !graph)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    if (made)
        made->works = calloc(graph->nodes.count + 1, sizeof(struct work *));
    if (!made || !made->works) {
        free(made);
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->held = 1;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct work *work = graph->nodes.node[i]->work;

        if (work) {
            work->held++;
            made->works[made->count++] = work;
        }
    }
    *exec = made;
    return emu_leave(CUDA_SUCCESS);
}

API cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *wrong, char *log,
                          size_t size)
{
    if (log && size)
        *log = 0;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

API cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!exec)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    exec_drop(exec);
    return emu_leave(CUDA_SUCCESS);
}

static CUresult replay(struct work *work)
{
    CUgraphExec exec = ((struct replay *)work)->exec;

    for (size_t i = 0; i < exec->count; i++) {
        CUresult error = exec->works[i]->run ? exec->works[i]->run(exec->works[i]) : CUDA_SUCCESS;

        if (error)
            return error;
    }
    return CUDA_SUCCESS;
}

static void replay_end(struct work *work)
{
    exec_drop(((struct replay *)work)->exec);
}

static CUresult cuGraphLaunch_on(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &stream);
    struct replay *made;

    if (error)
        return error;
    made = emu_work(sizeof(*made), replay);
    if (made) {
        made->exec = exec;
        made->work.end = replay_end;
        exec->held++;
    }
    return emu_leave(emu_submit(stream, (struct work *)made, NULL));
}
STREAMED(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))

static CUresult cuGraphUpload_on(CUgraphExec exec, CUstream stream)
{
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
STREAMED(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))

/* ---- what lives as long as a graph ---- */

API cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned count,
                       unsigned flags)
{
    CUresult error = emu_enter();
    CUuserObject made;

    if (error)
        return error;
    made = object && destroy && count ? calloc(1, sizeof(*made)) : NULL;
    if (!made)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *made = (struct CUuserObject_st){count, destroy, data};
    *object = made;
    return emu_leave(CUDA_SUCCESS);
}

API cuUserObjectRelease(CUuserObject object, unsigned count)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    user_drop(object, count);
    return emu_leave(CUDA_SUCCESS);
}

API cuUserObjectRetain(CUuserObject object, unsigned count)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    object->held += count;
    return emu_leave(CUDA_SUCCESS);
}

API cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    CUresult error = emu_enter();
    struct user *larger;

    if (error)
        return error;
    larger = realloc(graph->users, (graph->users_count + 1) * sizeof(*larger));
    if (!larger)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    graph->users = larger;
    larger[graph->users_count++] = (struct user){object, count};
    if (!(flags & 1)) /* the caller's reference is moved otherwise */
        object->held += count;
    return emu_leave(CUDA_SUCCESS);
}
