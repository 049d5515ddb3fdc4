/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_test.c -- memory that is more than cuMemAlloc's: pools, maps, other processes; batches,
 * rectangles
 */
#include "helper.h"

/* ---- pools ---- */

static void a_stream_gets_back_what_it_freed_at_once(void **state)
{
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *flag = pinned_memory(4);
    uint32_t *pinned = pinned_memory(MIB);
    CUdeviceptr first, second, third;
    CUmemoryPool pool;
    uint64_t used;

    *flag = 0;
    ok(cuMemAllocAsync(&first, MIB, a));
    hold(flag, 1, a);
    stamp(first, MIB, 1, a);
    ok(cuMemcpyDtoHAsync_v2(pinned, first, MIB, a));
    ok(cuMemFreeAsync(first, a));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(first, a));
    ok(cuMemAllocAsync(&second, MIB, a));
    assert_int_equal(second, first);
    stamp(second, MIB, 2, a); /* behind the copy */
    ok(cuMemFreeAsync(second, a));
    ok(cuMemAllocAsync(&third, MIB, b)); /* not before a is done with it */
    assert_int_not_equal(third, first);
    *flag = 1;
    ok(cuStreamSynchronize(a));
    assert_true(stamped(pinned, MIB, 1));
    ok(cuMemFreeAsync(third, b));
    ok(cuStreamSynchronize(b));
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 0);
    ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &used));
    assert_int_equal(used, 2 * MIB);
    ok(cuMemPoolTrimTo(pool, 0));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(pinned, first, MIB));
    ok(cuStreamDestroy_v2(a));
    ok(cuStreamDestroy_v2(b));
}

/* ---- maps ---- */

static const CUmemAllocationProp properties = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc access_of_0 = {
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void mapped_side_by_side_is_one(void **state)
{
    CUmemGenericAllocationHandle a, b;
    uint32_t *host = malloc(4 * MIB);
    CUdeviceptr address;

    ok(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 4));
    ok(cuMemCreate(&a, 2 * MIB, &properties, 0));
    ok(cuMemCreate(&b, 2 * MIB, &properties, 0));
    ok(cuMemMap(address, 2 * MIB, 0, a, 0));
    ok(cuMemMap(address + 2 * MIB, 2 * MIB, 0, b, 0));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 2 * MIB, 2 * MIB, 0, a, 0));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 4)); /* no access yet */
    ok(cuMemSetAccess(address, 4 * MIB, &access_of_0, 1));
    stamp(address, 4 * MIB, 4, NULL);
    ok(cuMemcpyDtoH_v2(host, address, 4 * MIB));
    assert_true(stamped(host, 4 * MIB, 4));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 4 * MIB + 4));

    /* The memory stays while only its place goes. */
    ok(cuMemUnmap(address, 2 * MIB));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 4));
    ok(cuMemMap(address + 32 * MIB, 2 * MIB, 0, a, 0));
    ok(cuMemSetAccess(address + 32 * MIB, 2 * MIB, &access_of_0, 1));
    memset(host, 0, MIB);
    ok(cuMemcpyDtoH_v2(host, address + 32 * MIB, 2 * MIB));
    assert_true(stamped(host, 2 * MIB, 4));
    ok(cuMemRelease(a));
    ok(cuMemRelease(b));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 64 * MIB)); /* something is mapped */
    ok(cuMemUnmap(address + 32 * MIB, 2 * MIB));
    ok(cuMemUnmap(address + 2 * MIB, 2 * MIB));
    ok(cuMemAddressFree(address, 64 * MIB));
    free(host);
}

static void memory_by_a_descriptor(void **state)
{
    CUmemGenericAllocationHandle made, imported;
    CUdeviceptr address;
    uint32_t word;
    int file;

    ok(cuMemCreate(&made, 2 * MIB, &properties, 0));
    ok(cuMemExportToShareableHandle(&file, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    ok(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    ok(cuMemMap(address, 2 * MIB, 0, made, 0));
    ok(cuMemMap(address + 2 * MIB, 2 * MIB, 0, imported, 0));
    ok(cuMemSetAccess(address, 4 * MIB, &access_of_0, 1));
    stamp(address, 8, 77, NULL);
    ok(cuMemcpyDtoH_v2(&word, address + 2 * MIB, 4));
    assert_int_equal(word, 77);
    ok(cuMemUnmap(address, 4 * MIB));
    ok(cuMemAddressFree(address, 4 * MIB));
    ok(cuMemRelease(made));
    ok(cuMemRelease(imported));
}

/* ---- another process ---- */

struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle event;
};

/* It writes into the memory behind something slow, and records the event behind that. */
static int other(int in, int out)
{
    struct handles handles;
    CUdeviceptr device;
    CUevent event;

    if (read(in, &handles, sizeof(handles)) != sizeof(handles))
        return 1;
    ok(cuInit(0));
    context_of(0);
    ok(cuIpcOpenMemHandle_v2(&device, handles.memory, 1));
    ok(cuIpcOpenEventHandle(&event, handles.event));
    spin(200, NULL);
    stamp(device, MIB, 6, NULL);
    ok(cuEventRecord(event, NULL));
    if (write(out, "x", 1) != 1)
        return 1;
    ok(cuStreamSynchronize(NULL));
    ok(cuIpcCloseMemHandle(device));
    return 0;
}

static void another_process_s_kernel_is_waited_for(void **state)
{
    int to[2], from[2], status;
    struct handles handles;
    CUdeviceptr device = device_memory(MIB);
    uint32_t *host = malloc(MIB);
    char in[20], out[20], byte;
    CUevent event;
    pid_t child;

    assert_true(!pipe(to) && !pipe(from));
    snprintf(in, sizeof(in), "%d", to[0]);
    snprintf(out, sizeof(out), "%d", from[1]);
    child = fork();
    if (!child) {
        execl("/proc/self/exe", "memory_test", in, out, NULL);
        _exit(9);
    }
    ok(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    ok(cuIpcGetMemHandle(&handles.memory, device));
    ok(cuIpcGetEventHandle(&handles.event, event));
    assert_int_equal(write(to[1], &handles, sizeof(handles)), sizeof(handles));
    assert_int_equal(read(from[0], &byte, 1), 1);
    fails(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    ok(cuStreamWaitEvent(NULL, event, 0));
    ok(cuMemcpyDtoHAsync_v2(host, device, MIB, NULL));
    assert_true(stamped(host, MIB, 6));
    ok(cuEventSynchronize(event));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fails(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&device, handles.memory, 1));
    free(host);
}

/* ---- several copies in one call ---- */

static void batches(void **state)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr device = device_memory(2 * MIB);
    uint32_t *pinned = pinned_memory(MIB), *pageable = malloc(MIB);
    CUdeviceptr to[] = {(uintptr_t)pinned, (uintptr_t)pageable};
    CUdeviceptr from[] = {device, device + MIB};
    size_t sizes[] = {MIB, MIB}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    stamp(device, MIB, 1, stream);
    stamp(device + MIB, MIB, 2, stream);
    ok(cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &index, 1, stream));
    ok(cuStreamSynchronize(stream));
    assert_true(stamped(pinned, MIB, 1) && stamped(pageable, MIB, 2));
    fails(CUDA_ERROR_INVALID_VALUE,
          cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &index, 1, NULL));
    ok(cuStreamDestroy_v2(stream));
    ok(cuMemFree_v2(device));
    free(pageable);
}

static void rectangles(void **state)
{
    CUdeviceptr device = device_memory(100 * 256);
    unsigned char host[100 * 50];
    CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = device,
                       .srcPitch = 256,
                       .srcXInBytes = 10,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = host,
                       .dstPitch = 50,
                       .WidthInBytes = 40,
                       .Height = 99};

    memset(host, 1, sizeof(host));
    ok(cuMemsetD8_v2(device, 2, 256));
    ok(cuMemsetD8_v2(device + 256, 3, 99 * 256));
    ok(cuMemcpy2D_v2(&r));
    for (int row = 0; row < 100; row++)
        for (int column = 0; column < 50; column++)
            assert_int_equal(host[row * 50 + column], row < 99 && column < 40 ? 3 : 1);
    r.Height = 100;
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&r));
    ok(cuMemFree_v2(device));
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_gets_back_what_it_freed_at_once),
        cmocka_unit_test(mapped_side_by_side_is_one),
        cmocka_unit_test(memory_by_a_descriptor),
        cmocka_unit_test(another_process_s_kernel_is_waited_for),
        cmocka_unit_test(batches),
        cmocka_unit_test(rectangles),
    };

    if (count > 2)
        return other(atoi(arguments[1]), atoi(arguments[2]));
    return cmocka_run_group_tests(tests, setup, NULL);
}
