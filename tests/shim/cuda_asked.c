/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_asked.c -- copies by pointers that the driver gave, as CUDA's runtime makes them
 * run: captures=2 referred=80 modes=default,all,copied
 */
#include <dlfcn.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

typedef CUresult ask(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult sync_copy(void *, CUdeviceptr, size_t);
typedef CUresult async_copy(void *, CUdeviceptr, size_t, CUstream);

static void *get(ask *by, const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult found;
    void *function = NULL;

    check(by(name, &function, version, flags, &found) == CUDA_SUCCESS && function != NULL);
    return function;
}

int main(void)
{
    void *library, *again;
    CUdeviceptr from;
    char *to;
    ask *by;
    int fd;

    begin();
    from = device_memory(SIZE);
    to = host(SIZE);
    library = dlopen("libcuda.so.1", RTLD_LAZY);
    check(library != NULL);
    by = (ask *)(uintptr_t)dlsym(library, "cuGetProcAddress_v2");
    check(by != NULL);
    by = (ask *)(uintptr_t)get(by, "cuGetProcAddress", 12000, 0);
    fd = create("a.ckpt");
    for (uint32_t i = 0; i < 6; i++) {
        stamp(from, SIZE, i, i == 1 ? CU_STREAM_PER_THREAD : NULL);
        switch (i) {
        case 0:
            ok(((sync_copy *)(uintptr_t)get(by, "cuMemcpyDtoH", 12000, 0))(to, from, SIZE));
            break;
        case 1:
            ok(((async_copy *)(uintptr_t)get(by, "cuMemcpyDtoHAsync", 12000, 2))(to, from, SIZE,
                                                                                 NULL));
            break;
        case 2:
            ok(((async_copy *)(uintptr_t)get(by, "cuMemcpyDtoHAsync", 12000, 0))(to, from, SIZE,
                                                                                 NULL));
            break;
        case 3:
            ok(((sync_copy *)(uintptr_t)dlsym(library, "cuMemcpyDtoH_v2"))(to, from, SIZE));
            break;
        case 4:
            ok(((sync_copy *)(uintptr_t)dlsym(RTLD_DEFAULT, "cuMemcpyDtoH_v2"))(to, from, SIZE));
            break;
        case 5:
            ok(((sync_copy *)(uintptr_t)get(by, "cuMemcpy", 12000, 1))(to, from, SIZE));
            break;
        }
        check(stamped(to, SIZE, i));
        put(fd, to, SIZE);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    /* All else is the linker's. */
    again = dlsym(RTLD_DEFAULT, "puts");
    check(again != NULL && again == dlsym(RTLD_NEXT, "puts"));
    check(dlsym(library, "cuNoSuchFunction") == NULL && dlerror() != NULL);
    check(dlsym(library, "cuInit") == (void *)(uintptr_t)cuInit);
    dlclose(library);
    return 0;
}
