/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_cuda.c -- the functions of CUDA that the shim takes, and the way to the real ones
 *
 * A program reaches them by the symbol of the runtime (libcudart), by that of the driver
 * (libcuda.so.1), or by a pointer: the runtime has dlsym give it cuGetProcAddress, and that
 * all others. There may be two runtimes, each seen by its users only: so the real function
 * of a caller is the one that its library sees. What was given is what is called then.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "cuda.h"
#include "promise.h"
#include "real.h"
#include "versions.h"

#define PER_THREAD 2u /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define WIDE 3020     /* CUDA 3.2: from there on addresses have 64 bits */
#define SECOND 12000  /* from there on cuGetProcAddress is cuGetProcAddress_v2 */

#define NO_DRIVER 35 /* cudaErrorInsufficientDriver; CUDA_ERROR_STUB_LIBRARY is 34 */

enum library { DRIVER, RUNTIME };

enum which {
#define CUDA_COPY(name, library, base, own, stream, text) WHICH_##name,
#define CUDA_PINS(name, library, base, text) WHICH_##name,
#include "cuda_hooks.def"
#undef CUDA_COPY
#undef CUDA_PINS
    WHICH_COUNT
};

#define CUDA_COPY(name, library, base, own, stream, text) cuda_function name;
#define CUDA_PINS(name, library, base, text) cuda_function name;
#include "cuda_hooks.def"
#undef CUDA_COPY
#undef CUDA_PINS

static const struct {
    const char *name, *base;
    cuda_function *ours;
    enum library library;
    bool own_stream, pins;
} hooks[] = {
#define CUDA_COPY(name, library, base, own, stream, text) {#name, base, name, library, own, false},
#define CUDA_PINS(name, library, base, text) {#name, base, name, library, false, true},
#include "cuda_hooks.def"
#undef CUDA_COPY
#undef CUDA_PINS
};

/* Places of calls, and what is real there: a look-up takes the linker's lock, and is slow. */
static struct {
    _Atomic(void *) caller;
    cuda_function *_Atomic real;
    enum which which;
} known[1024];

/* What dlsym or cuGetProcAddress gave first. */
static cuda_function *_Atomic given[WHICH_COUNT];

static void *symbol_in(void *library, const char *name)
{
    void *found = NULL;

    if (library != NULL) {
        found = real_symbol(library, name);
        dlclose(library); /* the program keeps it */
    }
    return found != NULL ? found : real_find(name);
}

static void *driver_symbol(const char *name)
{
    if (dlopen == NULL || dlclose == NULL)
        return NULL;
    return symbol_in(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), name);
}

static cuda_function *look_up(enum which which, void *caller)
{
    const char *path;

    return (cuda_function *)(uintptr_t)(hooks[which].library == DRIVER
                                            ? driver_symbol(hooks[which].name)
                                            : symbol_in(real_library(caller, &path),
                                                        hooks[which].name));
}

static cuda_function *real_of(enum which which, void *caller)
{
    uintptr_t hash = (uintptr_t)caller;
    unsigned place = (unsigned)((hash ^ hash >> 10) % (sizeof(known) / sizeof(known[0])));
    cuda_function *real = atomic_load(&given[which]);
    void *nobody = NULL;

    if (real != NULL)
        return real;

    if (atomic_load(&known[place].caller) == caller &&
        (real = atomic_load(&known[place].real)) != NULL && known[place].which == which)
        return real;
    real = look_up(which, caller);
    if (real != NULL && atomic_compare_exchange_strong(&known[place].caller, &nobody, caller)) {
        real_keep((void *)(uintptr_t)real);
        known[place].which = which;
        atomic_store(&known[place].real, real);
    }
    return real;
}

#define CUDA_COPY(name, library, base, own, number, text)                                          \
    EXPORT int name(uintptr_t to, uintptr_t from, size_t length, uintptr_t fourth,                 \
                    uintptr_t fifth)                                                               \
    {                                                                                              \
        struct cuda_call call = {.real = real_of(WHICH_##name, __builtin_return_address(0)),       \
                                 .to = to,                                                         \
                                 .from = from,                                                     \
                                 .length = length,                                                 \
                                 .fourth = fourth,                                                 \
                                 .fifth = fifth,                                                   \
                                 .stream = number,                                                 \
                                 .own_stream = own};                                               \
                                                                                                   \
        return call.real != NULL ? cuda_copy(&call) : NO_DRIVER;                                   \
    }
#define CUDA_PINS(name, library, base, text)                                                       \
    EXPORT int name(uintptr_t start, uintptr_t length, size_t flags, uintptr_t fourth,             \
                    uintptr_t fifth)                                                               \
    {                                                                                              \
        cuda_function *real = real_of(WHICH_##name, __builtin_return_address(0));                  \
                                                                                                   \
        if (real == NULL)                                                                          \
            return NO_DRIVER;                                                                      \
        promise_settle_range((void *)start, length);                                               \
        return real(start, length, flags, fourth, fifth);                                          \
    }
#include "cuda_hooks.def"
#undef CUDA_COPY
#undef CUDA_PINS

/* In place of what was given: ours, which calls it. */
static void *instead(enum which which, void *found)
{
    cuda_function *real = (cuda_function *)(uintptr_t)found, *nothing = NULL;

    if (real == hooks[which].ours)
        return found;
    if (atomic_compare_exchange_strong(&given[which], &nothing, real))
        real_keep(found);
    else if (nothing != real)
        return found; /* another one than before: it is called without us */
    return (void *)(uintptr_t)hooks[which].ours;
}

/* --- pointers that the driver gives --- */

typedef int ask_function(const char *name, void **function, int version, uint64_t flags);
typedef int ask_v2_function(const char *name, void **function, int version, uint64_t flags,
                            int *status);

static ask_function *_Atomic real_ask;
static ask_v2_function *_Atomic real_ask_v2;

ask_function cuGetProcAddress;
ask_v2_function cuGetProcAddress_v2;

static void *instead_of_asking(const char *name, void *found)
{
    if (strcmp(name, "cuGetProcAddress") == 0 &&
        (ask_function *)(uintptr_t)found != cuGetProcAddress) {
        real_keep(found);
        real_ask = (ask_function *)(uintptr_t)found;
        return (void *)(uintptr_t)cuGetProcAddress;
    }
    if (strcmp(name, "cuGetProcAddress_v2") == 0 &&
        (ask_v2_function *)(uintptr_t)found != cuGetProcAddress_v2) {
        real_keep(found);
        real_ask_v2 = (ask_v2_function *)(uintptr_t)found;
        return (void *)(uintptr_t)cuGetProcAddress_v2;
    }
    return found;
}

static void *answer(const char *name, int version, uint64_t flags, void *found)
{
    if (name == NULL || found == NULL || version < WIDE)
        return found;
    if (strcmp(name, "cuGetProcAddress") == 0)
        return instead_of_asking(version >= SECOND ? "cuGetProcAddress_v2" : name, found);
    for (unsigned i = 0; i < WHICH_COUNT; i++)
        if (strcmp(hooks[i].base, name) == 0 &&
            (hooks[i].own_stream == ((flags & PER_THREAD) != 0) || hooks[i].pins))
            return instead(i, found);
    return found;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    int error;

    if (real_ask == NULL)
        real_ask = (ask_function *)(uintptr_t)driver_symbol("cuGetProcAddress");
    if (real_ask == NULL)
        return NO_DRIVER;
    error = real_ask(name, function, version, flags);
    if (error == 0 && function != NULL)
        *function = answer(name, version, flags, *function);
    return error;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                               int *status)
{
    int error;

    if (real_ask_v2 == NULL)
        real_ask_v2 = (ask_v2_function *)(uintptr_t)driver_symbol("cuGetProcAddress_v2");
    if (real_ask_v2 == NULL)
        return NO_DRIVER;
    error = real_ask_v2(name, function, version, flags, status);
    if (error == 0 && function != NULL)
        *function = answer(name, version, flags, *function);
    return error;
}

/* --- dlsym --- */

/* Ours by that name, or NULL. */
static void *ours_by_name(const char *name, enum which *which)
{
    *which = WHICH_COUNT;
    if (strcmp(name, "cuGetProcAddress") == 0)
        return (void *)(uintptr_t)cuGetProcAddress;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        return (void *)(uintptr_t)cuGetProcAddress_v2;
    for (*which = 0; *which < WHICH_COUNT; (*which)++)
        if (strcmp(hooks[*which].name, name) == 0)
            return (void *)(uintptr_t)hooks[*which].ours;
    return NULL;
}

#define NOWHERE ((void *)-1)

/*
 * What ours returns; NOWHERE: NULL, as it is only here, and the program asks whether there is
 * CUDA; NULL: it jumps to the real one. RTLD_NEXT is of who is behind its caller.
 */
__attribute__((used, visibility("hidden"))) void *
portus_dlsym_taken(void *library, const char *name, void *caller);
void *portus_dlsym_taken(void *library, const char *name, void *caller)
{
    void *here, *found, *behind;
    enum which which;

    real_dlsym();
    if (name == NULL || name[0] != 'c' || name[1] != 'u' ||
        (here = ours_by_name(name, &which)) == NULL)
        return NULL;
    found = library == RTLD_NEXT ? here : real_symbol(library, name);
    if (found == here) {
        behind =
            which == WHICH_COUNT ? driver_symbol(name) : (void *)(uintptr_t)look_up(which, caller);
        if (behind == NULL) /* dlerror says so, too */
            return NOWHERE;
        real_keep(behind);
    }
    /* The runtime's are found by who calls them; its driver calls are seen. */
    if (found == NULL || library == RTLD_NEXT ||
        (which != WHICH_COUNT && hooks[which].library == RUNTIME))
        return NULL;
    return which == WHICH_COUNT ? instead_of_asking(name, found) : instead(which, found);
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    sub $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 24\n"
        "    mov 24(%rsp), %rdx\n"
        "    call portus_dlsym_taken\n"
        "    add $8, %rsp\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    .cfi_adjust_cfa_offset -24\n"
        "    test %rax, %rax\n"
        "    jz 1f\n"
        "    cmp $-1, %rax\n"
        "    jne 2f\n"
        "    xor %eax, %eax\n"
        "2:  ret\n"
        "1:  jmp *portus_real_dlsym(%rip)\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    mov x2, x30\n"
        "    bl portus_dlsym_taken\n"
        "    mov x2, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    cbz x2, 1f\n"
        "    cmn x2, #1\n"
        "    csel x0, x2, xzr, ne\n"
        "    ret\n"
        "1:  adrp x2, portus_real_dlsym\n"
        "    ldr x2, [x2, :lo12:portus_real_dlsym]\n"
        "    br x2\n"
        ".size dlsym, .-dlsym\n");
#else
#error "dlsym needs a trampoline on this machine"
#endif
