/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_fuzz.c -- libFuzzer's entry: pools that someone has made to do harm
 *
 *     make fuzz-pool F='-max_total_time=60'        (clang, with its libFuzzer)
 */
#define POOL_IMAGE_ALONE
#include "pool_patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *base, *image;

    if (base == NULL) {
        struct contents contents;

        portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
        base = aligned_alloc(4096, PATCH_SIZE);
        image = aligned_alloc(4096, PATCH_SIZE);
        if (base == NULL || image == NULL)
            abort();
        patch_base(base, &contents);
        memcpy(image, base, PATCH_SIZE);
    }
    patch_run(image, base, data, size);
    return 0;
}
