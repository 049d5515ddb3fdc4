/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runtime_test.c -- the emulated runtime: that it gets to the driver, its devices, its last error
 */
#include "helper.h"
#include "runtime/abi.h"

#ifndef EMU_TOOLKIT
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaMalloc(void **memory, size_t size);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaGetSymbolAddress(void **address, const void *symbol);
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status);
#endif
cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                                 cudaStream_t stream);
cudaError_t cudaDeviceReset(void);
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFunction(void **handle, const char *host, char *there, const char *name,
                            int threads, uint3 *thread, uint3 *block, dim3 *block_size,
                            dim3 *grid_size, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *there, const char *name, int external,
                       size_t size, int constant, int global);

static void a_kernel(void)
{
}
static char a_variable;

/* What a compiler puts into a program for its kernels. */
__attribute__((constructor)) static void registered(void)
{
    void **handle = __cudaRegisterFatBinary(NULL);

    __cudaRegisterFunction(handle, (const char *)a_kernel, NULL, "stamp", -1, NULL, NULL, NULL,
                           NULL, NULL);
    __cudaRegisterVar(handle, &a_variable, NULL, "a_variable", 0, 64, 0, 0);
}

static void *there(size_t size)
{
    void *memory;

    ok(cudaMalloc(&memory, size));
    return memory;
}

static void stamp_by_launch(void *to, uint64_t words, uint32_t seed)
{
    void *arguments[] = {&to, &words, &seed};

    ok(cudaLaunchKernel((const void *)a_kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
                        NULL));
}

static void a_kernel_by_its_address(void **state)
{
    void *device = there(MIB);
    uint32_t *host = malloc(MIB);

    stamp_by_launch(device, MIB / 4, 12);
    ok(cudaMemcpyAsync(host, device, MIB, cudaMemcpyDeviceToHost, NULL));
    assert_true(stamped(host, MIB, 12));
    memset(host, 0, MIB);
    ok(cudaMemcpyAsync_ptsz(host, device, MIB, cudaMemcpyDefault, NULL));
    assert_true(stamped(host, MIB, 12));
    memset(host, 0, MIB);
    ok(cudaMemcpy(host, device, MIB, cudaMemcpyDeviceToHost));
    assert_true(stamped(host, MIB, 12));
    ok(cudaFree(device));
    free(host);
}

static void the_last_error(void **state)
{
    ok(cudaGetLastError());
    fails(cudaErrorInvalidDevice, cudaSetDevice(77));
    ok(cudaStreamSynchronize(NULL));
    fails(cudaErrorInvalidDevice, cudaPeekAtLastError());
    fails(cudaErrorInvalidDevice, cudaGetLastError());
    ok(cudaGetLastError());
    assert_string_equal(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
}

static void devices(void **state)
{
    struct cudaDeviceProp properties;
    int count, device;
    void *memory;
    struct cudaPointerAttributes attributes;

    ok(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    ok(cudaSetDevice(1));
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    memory = there(100);
    ok(cudaPointerGetAttributes(&attributes, memory));
    assert_true(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
    ok(cudaPointerGetAttributes(&attributes, &count));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    ok(cudaGetDeviceProperties(&properties, 1));
    assert_true(properties.major == 9 && properties.totalGlobalMem > 0);
    ok(cudaSetDevice(0));
}

static void variables(void **state)
{
    void *address, *again;

    ok(cudaGetSymbolAddress(&address, &a_variable));
    ok(cudaGetSymbolAddress(&again, &a_variable));
    assert_true(address && address == again);
    fails(cudaErrorSymbolNotFound, cudaGetSymbolAddress(&address, &state));
    ok(cudaMemcpy(address, "abc", 4, cudaMemcpyHostToDevice));
}

static void the_driver_s_functions(void **state)
{
    enum cudaDriverEntryPointQueryResult status;
    void *function;

    ok(cudaGetDriverEntryPointByVersion("cuMemcpyDtoH", &function, 12000, 0, &status));
    assert_true(function == (void *)cuMemcpyDtoH_v2);
}

static void the_reset(void **state)
{
    void *memory = there(100);

    ok(cudaDeviceReset());
    fails(cudaErrorInvalidValue, cudaFree(memory));
    ok(cudaFree(there(100)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_by_its_address),
        cmocka_unit_test(the_last_error),
        cmocka_unit_test(devices),
        cmocka_unit_test(variables),
        cmocka_unit_test(the_driver_s_functions),
        cmocka_unit_test(the_reset),
    };

    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
