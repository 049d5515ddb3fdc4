/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_closed.c -- a program that closes the driver's library, and opens it again where it lies elsewhere
 * run: captures=2 referred=20 modes=default,copied
 *
 * Right: it goes on. A symbol that is bound keeps its library; one that is bound to ours does, too.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "../emu/abi.h"
#include "helper.h"

enum { SIZE = 4 * MIB };

static void *library;

static void *find(void *from, const char *name)
{
    void *found = dlsym(from, name);

    check(found != NULL);
    return found;
}
#define CALL_BY(from, name, ...)                                                                   \
    check(((CUresult(*)())(uintptr_t)find(from, #name))(__VA_ARGS__) == CUDA_SUCCESS)
#define CALL(name, ...) CALL_BY(library, name, __VA_ARGS__)

/* So that nothing comes to lie where the driver was. */
static void *occupied(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end, first = 0, last = 0;
    char text[512];

    check(maps != NULL);
    while (fgets(text, sizeof(text), maps))
        if (strstr(text, "libcuda.so.1") && sscanf(text, "%lx-%lx", &start, &end) == 2) {
            first = first ? first : start;
            last = end;
        }
    fclose(maps);
    check(first != 0 && dlclose(library) == 0);
    return mmap((void *)first, last - first, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* anywhere: its copies are looked for in the whole program, which keeps the library plainly. */
static void a_while(const char *name, const char *driver, int anywhere)
{
    char *to = malloc(SIZE);
    CUdeviceptr from = 0;
    CUcontext context;
    int fd;

    library = dlopen(driver, RTLD_NOW | RTLD_GLOBAL);
    check(library != NULL && to != NULL);
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc_v2, &from, (size_t)SIZE);
    fd = create(name);
    for (int i = 1; i < 4; i++) {
        CALL(cuMemsetD8_v2, from, i, (size_t)SIZE);
        CALL_BY(anywhere ? RTLD_DEFAULT : library, cuMemcpyDtoH_v2, to, from, (size_t)SIZE);
        check(to[0] == i && to[SIZE - 1] == i);
        put(fd, to, SIZE);
    }
    check(close(fd) == 0);
    show(name);
    free(to);
    CALL(cuDevicePrimaryCtxReset_v2, 0);
    usleep(50000); /* its threads have ended */
}

int main(void)
{
    char driver[4096];
    ssize_t length = readlink("/proc/self/exe", driver, sizeof(driver) - 30);

    alarm(30);
    check(length > 0);
    driver[length] = '\0';
    strcpy(strrchr(driver, '/'), "/../emu/libcuda.so.1");
    save("first.ckpt", BIG, 1);
    for (int i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), '.', 'c', 'k', 'p', 't', 0};

        a_while(name, driver, i > 1);
        check(occupied() != MAP_FAILED);
    }
    return 0;
}
