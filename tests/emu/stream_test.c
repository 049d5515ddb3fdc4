/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_test.c -- streams of the emulated driver: copies that are late, order by streams, events and
 * words, the program's functions between them
 */
#include "helper.h"

#include <pthread.h>
#include <time.h>

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct flag {
    volatile uint32_t value;
};

static struct flag *flag_new(void)
{
    struct flag *flag = pinned_memory(sizeof(*flag));

    flag->value = 0;
    return flag;
}

static void copies_into_pinned_memory_are_late(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(MIB);
    uint32_t *host = pinned_memory(MIB);
    struct flag *flag = flag_new();

    memset(host, 1, MIB);
    ok(cuMemsetD32Async(device, 7, MIB / 4, stream));
    hold(&flag->value, 1, stream);
    ok(cuMemcpyDtoHAsync_v2(host, device, MIB, stream));
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    usleep(20000);
    assert_int_equal(host[0], 0x01010101);
    flag->value = 1;
    ok(cuStreamSynchronize(stream));
    ok(cuStreamQuery(stream));
    for (size_t i = 0; i < MIB / 4; i++)
        assert_int_equal(host[i], 7);
    ok(cuStreamDestroy_v2(stream));
    ok(cuMemFree_v2(device));
    ok(cuMemFreeHost(host));
}

/* The asynchronous copy returns when the bytes are there: behind what was slow on its stream. */
static void copies_into_pageable_memory_keep_their_caller(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(MIB);
    uint32_t *host = malloc(MIB);
    double begin = now();

    spin(100, stream);
    stamp(device, MIB, 5, stream);
    assert_true(now() - begin < 0.1);
    ok(cuMemcpyDtoHAsync_v2(host, device, MIB, stream));
    assert_true(now() - begin >= 0.1);
    assert_true(stamped(host, MIB, 5));
    ok(cuStreamDestroy_v2(stream));
    ok(cuMemFree_v2(device));
    free(host);
}

/* Overwritten as soon as the call has returned: the device got what was there. */
static void copies_from_pageable_memory_have_read_it(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(65536);
    unsigned char *host = malloc(65536), *back = malloc(65536);
    struct flag *flag = flag_new();

    memset(host, 3, 65536);
    hold(&flag->value, 1, stream);
    ok(cuMemcpyHtoDAsync_v2(device, host, 65536, stream));
    memset(host, 4, 65536);
    flag->value = 1;
    ok(cuMemcpyDtoHAsync_v2(back, device, 65536, stream));
    assert_int_equal(back[0], 3);
    assert_int_equal(back[65535], 3);
    ok(cuStreamDestroy_v2(stream));
}

static void the_default_stream_orders_blocking_ones(void **state)
{
    CUstream blocking = stream_new(0), free_one = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(4096);
    struct flag *flag = flag_new(), *second = flag_new();
    uint32_t *host = pinned_memory(4096);

    hold(&flag->value, 1, blocking);
    stamp(device, 4096, 1, blocking);
    ok(cuMemcpyAsync((uintptr_t)host, device, 4096, CU_STREAM_LEGACY)); /* behind it */
    spin(1, free_one);
    ok(cuStreamSynchronize(free_one)); /* not behind anything */
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    flag->value = 1;
    ok(cuStreamSynchronize(NULL));
    assert_true(stamped(host, 4096, 1));
    hold(&second->value, 1, NULL);
    stamp(device, 4096, 2, NULL);
    ok(cuMemcpyAsync((uintptr_t)host, device, 4096, blocking));
    usleep(10000);
    assert_true(stamped(host, 4096, 1));
    second->value = 1;
    ok(cuStreamSynchronize(blocking));
    assert_true(stamped(host, 4096, 2));
    ok(cuStreamDestroy_v2(blocking));
    ok(cuStreamDestroy_v2(free_one));
}

static void *another_thread(void *argument)
{
    CUcontext context = argument;
    CUresult (*query)(CUstream);
    CUdriverProcAddressQueryResult status;

    ok(cuCtxSetCurrent(context));
    ok(cuGetProcAddress_v2("cuStreamQuery", (void **)&query, 12000, 2, &status));
    assert_true(status == CU_GET_PROC_ADDRESS_SUCCESS && query != cuStreamQuery);
    ok(query(NULL)); /* another stream than the other thread's */
    ok(cuStreamQuery(CU_STREAM_PER_THREAD));
    return NULL;
}

static void each_thread_has_its_default_stream(void **state)
{
    CUcontext context;
    pthread_t thread;
    struct flag *flag = flag_new();

    ok(cuCtxGetCurrent(&context));
    hold(&flag->value, 1, CU_STREAM_PER_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, another_thread, context), 0);
    pthread_join(thread, NULL);
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL)); /* it is a blocking one */
    flag->value = 1;
    ok(cuCtxSynchronize());
    ok(cuStreamQuery(CU_STREAM_PER_THREAD));
}

static void order_by_events(void **state)
{
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(MIB);
    uint32_t *host = pinned_memory(MIB);
    struct flag *flag = flag_new();
    CUevent event = event_new();

    ok(cuEventQuery(event)); /* never recorded */
    hold(&flag->value, 1, a);
    stamp(device, MIB, 9, a);
    ok(cuEventRecord(event, a));
    stamp(device, MIB, 10, a);
    ok(cuStreamWaitEvent(b, event, 0));
    ok(cuEventRecord(event, b)); /* does not change what b waits for */
    fails(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    flag->value = 1;
    ok(cuEventSynchronize(event));
    ok(cuStreamSynchronize(a));
    ok(cuMemcpyDtoHAsync_v2(host, device, MIB, b));
    ok(cuStreamSynchronize(b));
    assert_true(stamped(host, MIB, 10));
    ok(cuEventDestroy_v2(event));
    fails(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, a));
    ok(cuStreamDestroy_v2(a));
    ok(cuStreamDestroy_v2(b));
    fails(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(a));
}

static void order_by_words(void **state)
{
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = device_memory(4);

    ok(cuMemsetD32Async(word, 0, 1, a));
    ok(cuStreamSynchronize(a));
    ok(cuStreamWaitValue32_v2(a, word, 5, 1 /* equal */));
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    ok(cuStreamWriteValue32_v2(b, word, 4, 0));
    ok(cuStreamSynchronize(b));
    fails(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    ok(cuStreamWriteValue32_v2(b, word, 5, 0));
    ok(cuStreamSynchronize(a));
    fails(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(b, word + 2, 5, 0));
    ok(cuStreamDestroy_v2(a));
    ok(cuStreamDestroy_v2(b));
    ok(cuMemFree_v2(word));
}

static void events_tell_the_time(void **state)
{
    CUevent begin, end;
    float milliseconds;

    ok(cuEventCreate(&begin, 0));
    ok(cuEventCreate(&end, 0));
    ok(cuEventRecord(begin, NULL));
    spin(20, NULL);
    ok(cuEventRecord(end, NULL));
    fails(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, begin, end));
    ok(cuEventSynchronize(end));
    ok(cuEventElapsedTime(&milliseconds, begin, end));
    assert_true(milliseconds >= 20);
}

static CUresult called;

static void host_function(void *data)
{
    called = cuStreamQuery(NULL);
    *(int *)data = 1;
}

static void host_functions_may_not_call_the_driver(void **state)
{
    int seen = 0;

    ok(cuLaunchHostFunc(NULL, host_function, &seen));
    ok(cuStreamSynchronize(NULL));
    assert_true(seen && called == CUDA_ERROR_NOT_PERMITTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_into_pinned_memory_are_late),
        cmocka_unit_test(copies_into_pageable_memory_keep_their_caller),
        cmocka_unit_test(copies_from_pageable_memory_have_read_it),
        cmocka_unit_test(the_default_stream_orders_blocking_ones),
        cmocka_unit_test(each_thread_has_its_default_stream),
        cmocka_unit_test(order_by_events),
        cmocka_unit_test(order_by_words),
        cmocka_unit_test(events_tell_the_time),
        cmocka_unit_test(host_functions_may_not_call_the_driver),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
