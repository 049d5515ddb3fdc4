/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_torch.c -- torch's CRC-32, computed by a faster one
 *
 * torch.save gives each tensor to miniz, which checksums it at 1.7 GB/s before it
 * writes it: more than half of a save to memory. miniz as torch has it (2.6 and
 * later) can be told to store a CRC that it is given; what it writes is the same to
 * the byte. libtorch calls the function through its PLT, so it can be interposed.
 *
 * Whether this library's miniz understands the flag is not guessed from a version:
 * a small archive is made in memory once, and looked at.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "common/copy.h"
#include "file.h"
#include "real.h"
#include "shim.h"
#include "versions.h"

#define COMPRESSED_DATA 0x0400u       /* miniz.h: data is deflated already */
#define DO_NOT_COMPUTE_CRC32 0x80000u /* torch's addition: store uncomp_crc32 as given */
#define WORTH_WHILE (64u << 10)
#define ARCHIVE_BYTES 4096      /* mz_zip_archive is below 200 */
#define LOCAL_HEADER 30         /* 4.3.7 */
#define CENTRAL_HEADER "PK\1\2" /* APPNOTE.TXT 4.3.12 */
#define CENTRAL_HEADER_CRC 16

typedef int (*add_function)(void *, const char *, const void *, size_t, const void *, uint16_t,
                            unsigned, uint64_t, uint32_t, void *, const char *, unsigned,
                            const char *, unsigned);

/* A library that calls the function, and has it; a process has one torch, or rarely two. */
struct library {
    void *caller; /* the return address, instead of the slow dladdr at each tensor */
    add_function add;
    bool given; /* it stores the CRC that it is given */
};

static bool stores_given_crc(void *handle, add_function add)
{
    int (*begin)(void *, size_t, size_t) =
        (int (*)(void *, size_t, size_t))(uintptr_t)real_symbol(handle, "mz_zip_writer_init_heap");
    int (*finish)(void *, void **, size_t *) = (int (*)(void *, void **, size_t *))(
        uintptr_t)real_symbol(handle, "mz_zip_writer_finalize_heap_archive");
    int (*end)(void *) = (int (*)(void *))(uintptr_t)real_symbol(handle, "mz_zip_writer_end");
    uint64_t archive[ARCHIVE_BYTES / sizeof(uint64_t)] = {0};
    const uint32_t crc = 0x5a17c0deu;
    uint8_t *bytes = NULL, *central;
    size_t size = 0;
    bool good = false;

    if (begin == NULL || finish == NULL || end == NULL || !begin(archive, 0, 0))
        return false;
    if (add(archive, "a", "portus", 6, NULL, 0, DO_NOT_COMPUTE_CRC32, 0, crc, NULL, NULL, 0, NULL,
            0) &&
        finish(archive, (void **)&bytes, &size) && bytes != NULL) {
        central = memmem(bytes, size, CENTRAL_HEADER, 4);
        good = central != NULL && size - (size_t)(central - bytes) >= CENTRAL_HEADER_CRC + 4 &&
               memcmp(central + CENTRAL_HEADER_CRC, &crc, sizeof(crc)) == 0;
    }
    end(archive);
    free(bytes);
    return good;
}

/*
 * The caller's own library: RTLD_NEXT does not see it, because Python loads it RTLD_LOCAL.
 * No lock: the dynamic linker has its own, and a fork may come at any moment.
 */
static struct library look_up(void *caller)
{
    struct library library = {.caller = caller};
    const char *path;
    void *handle = real_library(caller, &path);

    if (handle == NULL)
        return library;
    library.add = (add_function)(uintptr_t)real_symbol(handle, "mz_zip_writer_add_mem_ex_v2");
    library.given = library.add != NULL && strstr(path, "libtorch") != NULL &&
                    stores_given_crc(handle, library.add);
    dlclose(handle);
    return library;
}

/* Looks once for each place of a call; where there are too many, every time. */
static struct library find(void *caller)
{
    enum { EMPTY, CLAIMED, KNOWN };
    static struct {
        _Atomic uint32_t state;
        struct library library;
    } known[4];
    struct library library;

    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (atomic_load(&known[i].state) == KNOWN && known[i].library.caller == caller)
            return known[i].library;
    library = look_up(caller);
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t empty = EMPTY;
        if (!atomic_compare_exchange_strong(&known[i].state, &empty, CLAIMED))
            continue;
        known[i].library = library;
        atomic_store(&known[i].state, KNOWN);
        break;
    }
    return library;
}

/*
 * Called by the C++ runtime when an exception (a failing write(2) of the program's own, or
 * an interrupt) or a cancellation passes through the hook below: what is held ahead is of
 * that call, and would be taken for the tensor's bytes in a later one. A cleanup of the
 * compiler's would need libgcc_s. See the Itanium C++ ABI, 1.6: personality routine.
 */
__attribute__((used, visibility("hidden"))) _Unwind_Reason_Code
portus_torch_left(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                  struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code portus_torch_left(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class class,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context)
{
    if (actions & _UA_CLEANUP_PHASE)
        file_ahead_end();
    return _URC_CONTINUE_UNWIND;
}

int mz_zip_writer_add_mem_ex_v2(void *zip, const char *name, const void *data, size_t length,
                                const void *comment, uint16_t comment_length, unsigned level_flags,
                                uint64_t plain_length, uint32_t crc, void *time, const char *extra,
                                unsigned extra_length, const char *central,
                                unsigned central_length);

EXPORT int mz_zip_writer_add_mem_ex_v2(void *zip, const char *name, const void *data, size_t length,
                                       const void *comment, uint16_t comment_length,
                                       unsigned level_flags, uint64_t plain_length, uint32_t crc,
                                       void *time, const char *extra, unsigned extra_length,
                                       const char *central, unsigned central_length)
{
    struct library library = find(__builtin_return_address(0));
    bool ahead = false;
    int result;

    __asm__(
        ".cfi_personality 0x1b, portus_torch_left"); /* relative to the place of the reference */

    if (library.add == NULL)
        library.add = real_mz_zip_writer_add_mem_ex_v2; /* whichever is visible */
    if (library.given && length >= WORTH_WHILE && shim_on() && shim.env.crc == PORTUS_CRC_OFFLOAD &&
        shim.env.mode != PORTUS_REPORT &&
        !(level_flags & (COMPRESSED_DATA | DO_NOT_COMPUTE_CRC32))) {
        /* zip64 fields would shift the data; then only the guess is wrong. */
        ahead = file_ahead_begin(data, length, LOCAL_HEADER + strlen(name) + extra_length, &crc);
        if (!ahead)
            crc = portus_crc32(0, data, length);
        level_flags |= DO_NOT_COMPUTE_CRC32;
    }
    result = library.add(zip, name, data, length, comment, comment_length, level_flags,
                         plain_length, crc, time, extra, extra_length, central, central_length);
    if (ahead)
        file_ahead_end();
    return result;
}
