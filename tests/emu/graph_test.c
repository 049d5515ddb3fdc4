/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph_test.c -- capture of streams into graphs, replay, and what is an error meanwhile
 */
#include "helper.h"

#include <pthread.h>

static CUgraphExec ended(CUstream stream, size_t nodes)
{
    CUgraphExec exec;
    CUgraph graph;
    size_t count = 0;

    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, nodes);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph)); /* it is not needed any more */
    return exec;
}

static void what_is_captured_is_done_when_launched(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(MIB);
    uint32_t *pinned = pinned_memory(MIB);
    CUstreamCaptureStatus status;
    CUgraphExec exec;

    memset(pinned, 0, MIB);
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    stamp(device, MIB, 7, stream);
    ok(cuMemcpyDtoHAsync_v2(pinned, device, MIB, stream));
    ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    exec = ended(stream, 2);
    ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cuCtxSynchronize());
    assert_int_equal(pinned[1], 0);
    for (int i = 0; i < 3; i++) {
        memset(pinned, 0, MIB);
        ok(cuMemsetD8_v2(device, 1, MIB));
        ok(cuStreamSynchronize(NULL)); /* which the graph's stream does not wait for */
        ok(cuGraphLaunch(exec, stream));
        ok(cuStreamSynchronize(stream));
        assert_true(stamped(pinned, MIB, 7));
    }
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphExecDestroy(exec)); /* while it is queued */
    ok(cuStreamSynchronize(stream));
    ok(cuStreamDestroy_v2(stream));
    ok(cuMemFree_v2(device));
}

static void events_take_other_streams_along(void **state)
{
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(MIB);
    CUevent fork = event_new(), join = event_new();
    uint32_t *pinned = pinned_memory(MIB);
    CUgraphExec exec;
    CUgraph graph;

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    stamp(device, MIB, 9, a);
    ok(cuEventRecord(fork, a));
    ok(cuStreamWaitEvent(b, fork, 0));
    ok(cuMemcpyDtoHAsync_v2(pinned, device, MIB, b));
    ok(cuEventRecord(join, b));
    ok(cuStreamWaitEvent(a, join, 0));
    exec = ended(a, 2);
    ok(cuStreamSynchronize(b)); /* captured no more */
    ok(cuGraphLaunch(exec, NULL));
    ok(cuStreamSynchronize(NULL));
    assert_true(stamped(pinned, MIB, 9));
    ok(cuGraphExecDestroy(exec));

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuEventRecord(fork, a));
    ok(cuStreamWaitEvent(b, fork, 0));
    stamp(device, 4, 9, b);
    fails(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(fork));
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuEventRecord(fork, a));
    ok(cuStreamWaitEvent(b, fork, 0));
    stamp(device, 4, 9, b);
    fails(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    assert_true(!graph);
    ok(cuEventRecord(fork, b));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, fork, 0));
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    ok(cuStreamDestroy_v2(a));
    ok(cuStreamDestroy_v2(b));
    ok(cuMemFree_v2(device));
}

/* Each of these voids a capture in the global mode, and is fine for a thread that is relaxed. */
static void *unsafe_elsewhere(void *expected)
{
    CUresult wanted = (CUresult)(intptr_t)expected;
    CUdeviceptr device;
    void *pinned;

    context_of(0);
    fails(wanted, cuMemAlloc_v2(&device, 4096));
    fails(wanted, cuMemHostAlloc(&pinned, 4096, 0));
    fails(wanted, cuCtxSynchronize());
    return NULL;
}

static void *relaxed_elsewhere(void *argument)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    ok(cuThreadExchangeStreamCaptureMode(&mode));
    return unsafe_elsewhere(argument);
}

static void in_a_thread(void *(*function)(void *), CUresult expected)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, function, (void *)(intptr_t)expected), 0);
    pthread_join(thread, NULL);
}

static void unsafe_calls_void_the_capture(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device;
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status;
    CUgraph graph;
    char *memory = aligned_alloc(PAGE, PAGE);

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fails(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostRegister_v2(memory, PAGE, 0));
    ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    in_a_thread(unsafe_elsewhere, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    in_a_thread(relaxed_elsewhere, CUDA_SUCCESS);
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuMemHostRegister_v2(memory, PAGE, 0));
    ok(cuMemHostUnregister(memory));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    in_a_thread(unsafe_elsewhere, CUDA_SUCCESS);
    fails(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&device, 4096));
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    fails(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    ok(cuStreamDestroy_v2(stream));
    free(memory);
}

static void the_legacy_stream_voids_blocking_captures(void **state)
{
    CUstream stream = stream_new(0);
    CUdeviceptr device = device_memory(4096);
    CUgraph graph;

    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(device, 1, 10, NULL));
    fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    fails(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuStreamDestroy_v2(stream));
    ok(cuMemFree_v2(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_captured_is_done_when_launched),
        cmocka_unit_test(events_take_other_streams_along),
        cmocka_unit_test(unsafe_calls_void_the_capture),
        cmocka_unit_test(the_legacy_stream_voids_blocking_captures),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
