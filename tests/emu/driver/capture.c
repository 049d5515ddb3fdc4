/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c -- capture of streams into graphs, and what threads may not do meanwhile
 *
 * A captured stream has a set of nodes that the next one comes after. An event that is recorded in
 * it keeps that set; a stream that waits for the event is captured, too, and must come back so
 * before the capture ends. What is not allowed makes the capture void, and its end an error.
 */
#include "emu.h"

struct capture {
    struct capture *next;
    CUgraph graph;
    bool given; /* the graph is the program's */
    CUstream origin;
    CUstreamCaptureMode mode;
    const void *thread;
    unsigned long long id;
    bool invalid;
    CUstream *streams;
    unsigned count;
};

static struct capture *captures;
static _Thread_local CUstreamCaptureMode mode;

/* An address that is this thread's alone stands for it. */
#define THIS_THREAD ((const void *)&mode)

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode before = mode;

    if (!other || *other > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

CUresult emu_unsafe(void)
{
    CUresult error = CUDA_SUCCESS;

    for (struct capture *c = captures; c && mode != CU_STREAM_CAPTURE_MODE_RELAXED; c = c->next) {
        if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        if (c->thread != THIS_THREAD &&
            (c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL || mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
            continue;
        c->invalid = true;
        error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return error;
}

CUresult emu_capture_void(struct capture *capture, CUresult error)
{
    capture->invalid = true;
    return error;
}

CUresult emu_unsafe_stream(CUstream stream)
{
    return emu_capture_void(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult emu_capture_implicit(CUcontext context)
{
    CUresult error = CUDA_SUCCESS;

    for (unsigned i = 0; i < context->streams_count; i++) {
        CUstream stream = context->streams[i];

        if (stream->capture && stream->blocking)
            error = emu_capture_void(stream->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    return error;
}

CUresult emu_captured(CUstream stream, struct work *work)
{
    struct capture *capture = stream->capture;
    CUgraphNode node = NULL;
    struct nodes one = {&node, 1};

    if (capture->invalid) {
        emu_work_drop(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    node = emu_graph_add(capture->graph, work, &stream->tail);
    if (!node)
        emu_work_drop(work);
    if (!node || !emu_nodes_set(&stream->tail, &one))
        return emu_capture_void(capture, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

CUresult emu_capture_join(CUstream stream, struct capture *capture, const struct nodes *after)
{
    CUstream *larger;

    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = true;
        return emu_capture_void(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream->legacy)
        return emu_capture_void(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!stream->capture) {
        larger = realloc(capture->streams, (capture->count + 1) * sizeof(*larger));
        if (!larger)
            return emu_capture_void(capture, CUDA_ERROR_OUT_OF_MEMORY);
        capture->streams = larger;
        larger[capture->count++] = stream;
        stream->capture = capture;
    }
    return emu_nodes_add(&stream->tail, after)
               ? CUDA_SUCCESS
               : emu_capture_void(capture, CUDA_ERROR_OUT_OF_MEMORY);
}

static void leave_stream(CUstream stream)
{
    stream->capture = NULL;
    free(stream->tail.node);
    stream->tail = (struct nodes){NULL, 0};
}

static void capture_drop(struct capture *capture)
{
    struct capture **at = &captures;

    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (unsigned i = 0; i < capture->count; i++)
        leave_stream(capture->streams[i]);
    free(capture->streams);
    free(capture);
}

void emu_capture_end(CUstream stream)
{
    struct capture *capture = stream->capture;

    if (!capture)
        return;
    if (!capture->given)
        emu_graph_drop(capture->graph);
    capture_drop(capture);
}

/* Whether all nodes that streams of the capture end with come before the end of its origin. */
static bool joined(struct capture *capture)
{
    const struct nodes *all = &capture->graph->nodes;

    for (size_t i = 0; i < all->count; i++)
        all->node[i]->reached = false;
    for (size_t i = 0; i < capture->origin->tail.count; i++)
        capture->origin->tail.node[i]->reached = true;
    for (size_t i = all->count; i-- > 0;)
        for (size_t k = 0; all->node[i]->reached && k < all->node[i]->after.count; k++)
            all->node[i]->after.node[k]->reached = true;
    for (unsigned s = 0; s < capture->count; s++)
        for (size_t i = 0; i < capture->streams[s]->tail.count; i++)
            if (!capture->streams[s]->tail.node[i]->reached)
                return false;
    return true;
}

static CUresult begin(CUstream handle, CUgraph graph, const struct nodes *after,
                      CUstreamCaptureMode how)
{
    static unsigned long long id;
    CUresult wrong = how > CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    CUstream stream;
    CUresult error = emu_enter_stream(handle, wrong, &stream);
    struct capture *made;

    if (error)
        return error;
    if (stream->legacy)
        return emu_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture)
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    made = calloc(1, sizeof(*made));
    if (made) {
        made->graph = graph ? graph : emu_graph();
        made->given = graph;
        made->origin = stream;
        made->mode = how;
        made->thread = THIS_THREAD;
        made->id = ++id;
        made->next = captures;
        captures = made;
    }
    if (!made || !made->graph)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return emu_leave(emu_capture_join(stream, made, after));
}

static CUresult cuStreamBeginCapture_v2_on(CUstream stream, CUstreamCaptureMode how)
{
    return begin(stream, NULL, &(struct nodes){NULL, 0}, how);
}
STREAMED(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode how), (stream, how))

static CUresult cuStreamBeginCaptureToGraph_on(CUstream stream, CUgraph graph,
                                               const CUgraphNode *nodes,
                                               const CUgraphEdgeData *edges, size_t count,
                                               CUstreamCaptureMode how)
{
    struct nodes after = {(CUgraphNode *)nodes, count};

    return graph ? begin(stream, graph, &after, how) : CUDA_ERROR_INVALID_VALUE;
}
STREAMED(cuStreamBeginCaptureToGraph,
         (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
          size_t count, CUstreamCaptureMode how),
         (stream, graph, nodes, edges, count, how))

static CUresult cuStreamEndCapture_on(CUstream handle, CUgraph *graph)
{
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &stream);
    struct capture *capture;

    if (error)
        return error;
    if (!stream->capture)
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    capture = stream->capture;
    if (capture->origin != stream)
        return emu_leave(emu_capture_void(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != THIS_THREAD)
        return emu_leave(emu_capture_void(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
    if (capture->invalid)
        error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = error ? NULL : capture->graph;
    if (error && !capture->given)
        emu_graph_drop(capture->graph);
    capture_drop(capture);
    return emu_leave(error);
}
STREAMED(cuStreamEndCapture, (CUstream stream, CUgraph *graph), (stream, graph))

static CUresult cuStreamGetCaptureInfo_v3_on(CUstream handle, CUstreamCaptureStatus *status,
                                             cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **nodes,
                                             const CUgraphEdgeData **edges, size_t *count)
{
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, status ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &stream);

    if (error)
        return error;
    if (stream->legacy)
        error = emu_capture_implicit(stream->context);
    if (error)
        return emu_leave(error);
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id)
            *id = stream->capture->id;
        if (graph)
            *graph = stream->capture->graph;
        if (nodes)
            *nodes = stream->tail.node;
        if (edges)
            *edges = NULL;
        if (count)
            *count = stream->tail.count;
    }
    return emu_leave(CUDA_SUCCESS);
}
STREAMED(cuStreamGetCaptureInfo_v3,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
          const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
         (stream, status, id, graph, nodes, edges, count))

static CUresult cuStreamGetCaptureInfo_v2_on(CUstream stream, CUstreamCaptureStatus *status,
                                             cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **nodes, size_t *count)
{
    return cuStreamGetCaptureInfo_v3_on(stream, status, id, graph, nodes, NULL, count);
}
STREAMED(cuStreamGetCaptureInfo_v2,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
          const CUgraphNode **nodes, size_t *count),
         (stream, status, id, graph, nodes, count))

static CUresult cuStreamIsCapturing_on(CUstream stream, CUstreamCaptureStatus *status)
{
    return cuStreamGetCaptureInfo_v3_on(stream, status, NULL, NULL, NULL, NULL, NULL);
}
STREAMED(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), (stream, status))

static CUresult cuStreamUpdateCaptureDependencies_v2_on(CUstream handle, CUgraphNode *nodes,
                                                        const CUgraphEdgeData *edges, size_t count,
                                                        unsigned flags)
{
    struct nodes those = {nodes, count};
    CUstream stream;
    CUresult error =
        emu_enter_stream(handle, flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, &stream);
    bool done;

    if (error)
        return error;
    if (!stream->capture)
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    done = flags ? emu_nodes_set(&stream->tail, &those) : emu_nodes_add(&stream->tail, &those);
    return emu_leave(done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
STREAMED(cuStreamUpdateCaptureDependencies_v2,
         (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
          unsigned flags),
         (stream, nodes, edges, count, flags))
