/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * without_cuda.c -- a program without CUDA asks by dlsym whether there is CUDA
 * run: captures=0
 */
#include <dlfcn.h>

#include "helper.h"

int main(void)
{
    static const char *const names[] = {"cudaMemcpy", "cuMemcpyDtoH_v2", "cuGetProcAddress", "cudaHostRegister",
                                        "cuInit", "malloc"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        dlerror();
        printf("%s: %d", names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL);
        printf(" %d", dlerror() != NULL);
        printf(" %d", dlsym(RTLD_NEXT, names[i]) != NULL);
        printf(" %d\n", dlsym(dlopen(NULL, RTLD_NOW), names[i]) != NULL);
    }
    return 0;
}
