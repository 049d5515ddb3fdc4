/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.c -- names and words of the errors
 */
#include "emu.h"

static const struct {
    CUresult value;
    const char *name, *text;
} errors[] = {
#define X(name, runtime, value, text) {name, #name, text},
#include "../errors.def"
#undef X
};

API cuGetErrorName(CUresult error, const char **text)
{
    for (unsigned i = 0; text && i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].value == error) {
            *text = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    if (text)
        *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorString(CUresult error, const char **text)
{
    for (unsigned i = 0; text && i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].value == error) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    if (text)
        *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
