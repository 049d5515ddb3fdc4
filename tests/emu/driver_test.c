/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_test.c -- that the emulated driver shows the faults that matter: memory that the CPU may
 * not touch, that is pinned, or another device's; errors, and what may be called when
 */
#include "helper.h"

#include <fcntl.h>
#include <signal.h>

/* ---- memory ---- */

static int touch(void *address)
{
    struct sigaction as_ever = {.sa_handler = SIG_DFL};

    sigaction(SIGSEGV, &as_ever, NULL);
    return *(volatile char *)address;
}

static void the_cpu_may_not_touch_device_memory(void **state)
{
    CUdeviceptr device = device_memory(MIB);

    assert_int_equal(in_child(touch, (void *)(uintptr_t)device), -SIGSEGV);
    ok(cuMemFree_v2(device));
}

static void what_is_copied_comes_back(void **state)
{
    static const size_t sizes[] = {1, 3, 4096, 65536, 65537, 5 * MIB + 13};
    char *there = malloc(6 * MIB), *back = malloc(6 * MIB);
    CUdeviceptr device = device_memory(6 * MIB), other = device_memory(6 * MIB);

    for (size_t i = 0; i < 6 * MIB; i++)
        there[i] = (char)(i * 7 + (i >> 12));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        memset(back, 0, 6 * MIB);
        ok(cuMemcpyHtoD_v2(device + 5, there, sizes[i]));
        ok(cuMemcpyDtoDAsync_v2(other + 1, device + 5, sizes[i], NULL));
        ok(cuMemcpyDtoH_v2(back, other + 1, sizes[i]));
        assert_memory_equal(back, there, sizes[i]);
        assert_int_equal(back[sizes[i]], 0);
    }
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, device + 4 * MIB, 3 * MIB));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, (uintptr_t)there, 100));
    ok(cuMemFree_v2(other));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(other));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, other, 1));
    ok(cuMemFree_v2(device));
    free(there);
    free(back);
}

static void freed_addresses_are_given_out_again(void **state)
{
    CUdeviceptr a = device_memory(MIB), b = device_memory(MIB), base;
    size_t size;

    ok(cuMemFree_v2(a));
    assert_int_equal(device_memory(MIB), a);
    ok(cuMemGetAddressRange_v2(&base, &size, b + 77));
    assert_true(base == b && size == MIB);
    ok(cuMemFree_v2(a));
    ok(cuMemFree_v2(b));
    fails(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, (size_t)1 << 50));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&a, 0));
}

/* ---- host memory, attributes ---- */

static void host_memory(void **state)
{
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pinned = pinned_memory(100);
    CUdeviceptr device;
    unsigned flags;

    fails(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, memory));
    ok(cuMemHostRegister_v2(memory + 100, 2 * PAGE, CU_MEMHOSTREGISTER_PORTABLE));
    fails(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(memory + PAGE, PAGE, 0));
    ok(cuMemHostRegister_v2(memory, 100, 0)); /* a page may be in two */
    ok(cuMemHostGetFlags(&flags, memory + 2 * PAGE));
    assert_true(flags & CU_MEMHOSTREGISTER_PORTABLE);
    ok(cuMemHostGetDevicePointer_v2(&device, memory + 100, 0));
    assert_int_equal(device, (uintptr_t)memory + 100);
    fails(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, memory + 100 + 2 * PAGE));
    device = device_memory(2 * PAGE);
    ok(cuMemcpyDtoHAsync_v2(memory + 100, device, 2 * PAGE, NULL));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(memory + 101, device, 2 * PAGE, NULL));
    ok(cuMemHostRegister_v2(memory + 100 + 2 * PAGE, PAGE, 0)); /* not even then */
    fails(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(memory + 101, device, 2 * PAGE, NULL));
    ok(cuMemHostUnregister(memory + 100 + 2 * PAGE));
    ok(cuMemHostUnregister(memory + 100));
    ok(cuMemHostUnregister(memory));
    fails(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory + 100));
    ok(cuMemHostGetFlags(&flags, pinned));
    ok(cuMemFreeHost(pinned));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
    munmap(memory, 4 * PAGE);
    fails(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(memory, PAGE, 0)); /* not there */
}

static bool pages_can_be_held(void)
{
    char text[8] = "0";
    FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "r");

    if (file && !fgets(text, sizeof(text), file))
        text[0] = '0';
    if (file)
        fclose(file);
    return text[0] == '0';
}

/* NVIDIA's driver does not say what it pins. */
static bool shown_as_pinned(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long pinned = 0;

    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmPin: %lu", &pinned);
    if (file)
        fclose(file);
    return pinned != 0;
}

/* What is mapped there now, and what the file has there now, are other pages. */
static void registered_pages_stay(void **state)
{
    int file = memfd_create("pages", MFD_CLOEXEC);
    CUdeviceptr device = device_memory(MIB);
    uint32_t *memory, *other;

    if (!pages_can_be_held())
        skip();
    assert_false(ftruncate(file, MIB));
    memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    other = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ok(cuMemHostRegister_v2(memory, MIB, 0));
    assert_false(shown_as_pinned());
    stamp(device, MIB, 3, NULL);
    ok(cuMemcpyDtoHAsync_v2(memory, device, MIB, NULL));
    ok(cuStreamSynchronize(NULL));
    assert_true(stamped(memory, MIB, 3) && stamped(other, MIB, 3));
    memset(memory, 5, MIB);
    ok(cuMemcpyHtoDAsync_v2(device, memory, MIB, NULL));
    ok(cuStreamSynchronize(NULL));
    assert_false(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB));
    assert_int_equal(other[7], 0);
    stamp(device, MIB, 4, NULL);
    ok(cuMemcpyDtoHAsync_v2(memory, device, MIB, NULL)); /* into the pages of before */
    ok(cuStreamSynchronize(NULL));
    assert_int_equal(memory[7], 0);
    memset(memory, 9, MIB);
    ok(cuMemsetD32Async(device, 0, MIB / 4, NULL));
    ok(cuMemcpyHtoDAsync_v2(device, memory, MIB, NULL)); /* from them */
    ok(cuStreamSynchronize(NULL));
    ok(cuMemHostUnregister(memory));
    ok(cuMemcpyDtoH_v2(memory, device, MIB));
    assert_true(stamped(memory, MIB, 4));
    munmap(memory, MIB);
    munmap(other, MIB);
    close(file);
    ok(cuMemFree_v2(device));
}

static void pointer_attributes(void **state)
{
    CUdeviceptr device = device_memory(100), managed;
    int *pinned = pinned_memory(100), local, ordinal;
    unsigned type, is_managed;
    CUpointer_attribute both[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&type, &ordinal};

    ok(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    *(char *)(uintptr_t)managed = 1; /* may be touched */
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 50));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)pinned));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    ok(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(is_managed, 1);
    fails(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&local));
    ok(cuPointerGetAttributes(2, both, data, device));
    assert_true(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
    ok(cuPointerGetAttributes(2, both, data, (uintptr_t)&local)); /* not an error */
    assert_true(type == 0 && ordinal == -2);
    ok(cuMemFree_v2(managed));
    ok(cuMemFree_v2(device));
}

/* ---- two devices ---- */

static void peers(void **state)
{
    CUcontext first = context_of(0), second;
    CUdeviceptr here = device_memory(MIB), there;
    uint32_t *host = malloc(MIB);
    int can;

    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_true(can);
    second = context_of(1);
    there = device_memory(MIB);
    stamp(there, MIB, 3, NULL);
    ok(cuCtxSynchronize());
    ok(cuCtxSetCurrent(first));
    ok(cuMemcpyPeerAsync(here, first, there, second, MIB, NULL));
    ok(cuMemcpyDtoH_v2(host, here, MIB));
    assert_true(stamped(host, MIB, 3));
    ok(cuCtxEnablePeerAccess(second, 0));
    fails(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(second, 0));
    stamp(there, MIB, 4, NULL); /* by a kernel of the other device */
    ok(cuMemcpyDtoH_v2(host, there, MIB));
    assert_true(stamped(host, MIB, 4));
    free(host);
}

/* ---- errors ---- */

static int in_a_fork(void *argument)
{
    int count;

    return cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                   cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                   cuMemAlloc_v2(argument, 10) == CUDA_ERROR_NOT_INITIALIZED
               ? 0
               : 1;
}

static void nothing_works_in_a_forked_child(void **state)
{
    CUdeviceptr device;

    assert_int_equal(in_child(in_a_fork, &device), 0);
}

static void late(void)
{
    int count;

    if (cuDeviceGetCount(&count) != CUDA_ERROR_DEINITIALIZED)
        _exit(3);
    _exit(4);
}

/* A program of its own: it calls the driver after the driver's own atexit handler. */
static int end_late(void)
{
    atexit(late);
    if (cuInit(0))
        return 2;
    return 0;
}

static void nothing_works_after_the_end(void **state)
{
    int status;
    pid_t child = fork();

    if (!child) {
        execl("/proc/self/exe", "driver_test", "late", NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 4);
}

static void errors_stick_until_the_reset(void **state)
{
    CUdeviceptr device = device_memory(100), other;
    CUstream stream = stream_new(0);
    const char *text;

    launch("fault", stream, NULL, NULL, NULL);
    fails(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    fails(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&other, 10));
    fails(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    ok(cuDevicePrimaryCtxReset_v2(0));
    fails(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device)); /* gone with it */
    ok(cuMemAlloc_v2(&other, 10));
    ok(cuMemFree_v2(other));
    ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    module = NULL;
}

static void the_reset_forgets_pinned_memory(void **state)
{
    char *memory = aligned_alloc(PAGE, PAGE);
    unsigned flags;

    ok(cuMemHostRegister_v2(memory, PAGE, 0));
    ok(cuDevicePrimaryCtxReset_v2(0));
    fails(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, memory));
    ok(cuMemHostRegister_v2(memory, PAGE, 0));
    ok(cuMemHostUnregister(memory));
    free(memory);
}

static void contexts_have_their_own(void **state)
{
    CUcontext made, current;
    CUdeviceptr device;
    CUstream stream;

    ok(cuCtxCreate_v2(&made, 0, 0));
    device = device_memory(MIB);
    stream = stream_new(0);
    spin(1, stream);
    module = NULL;
    ok(cuCtxDestroy_v2(made));
    ok(cuCtxGetCurrent(&current));
    assert_true(current && current != made);
    fails(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device));
    fails(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(made));
}

static void names_without_versions(void **state)
{
    CUdriverProcAddressQueryResult status;
    void *function;

    ok(cuGetProcAddress_v2("cuMemcpyDtoHAsync", &function, 12000, 0, &status));
    assert_true(function == (void *)cuMemcpyDtoHAsync_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
    ok(cuGetProcAddress_v2("cuMemcpyDtoHAsync", &function, 12000, 2, &status));
    assert_true(function && function != (void *)cuMemcpyDtoHAsync_v2);
    ok(cuGetProcAddress_v2("cuMemcpyDtoHAsync", &function, 2000, 0, &status));
    assert_true(!function && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ok(cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status));
    assert_true(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    fails(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &function, 99000, 0, &status));
}

static void capture_modes_are_a_thread_s_own(void **state)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus status;

    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuStreamIsCapturing(NULL, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_may_not_touch_device_memory),
        cmocka_unit_test(what_is_copied_comes_back),
        cmocka_unit_test(freed_addresses_are_given_out_again),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(registered_pages_stay),
        cmocka_unit_test(pointer_attributes),
        cmocka_unit_test(peers),
        cmocka_unit_test(nothing_works_in_a_forked_child),
        cmocka_unit_test(nothing_works_after_the_end),
        cmocka_unit_test(errors_stick_until_the_reset),
        cmocka_unit_test(the_reset_forgets_pinned_memory),
        cmocka_unit_test(contexts_have_their_own),
        cmocka_unit_test(names_without_versions),
        cmocka_unit_test(capture_modes_are_a_thread_s_own),
    };

    if (count > 1)
        return end_late();
    return cmocka_run_group_tests(tests, setup, NULL);
}
