/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvml.c -- libnvidia-ml.so.1: as little of it as PyTorch calls without asking whether it is there
 */
#include <stdlib.h>

#define API __attribute__((visibility("default"))) int
#define SUCCESS 0
#define NOT_SUPPORTED 3

/* Nothing is begun. */
API nvmlInit_v2(void)
{
    return SUCCESS;
}

API nvmlDeviceGetCount_v2(unsigned *count)
{
    const char *text = getenv("EMU_DEVICES");

    *count = text ? (unsigned)atoi(text) : 2;
    return SUCCESS;
}

API nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return SUCCESS;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    *device = (void *)id;
    return SUCCESS;
}

API nvmlDeviceGetGpuFabricInfoV(void *device, void *information)
{
    return NOT_SUPPORTED;
}

API nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes)
{
    return NOT_SUPPORTED;
}

API nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, void *type)
{
    return NOT_SUPPORTED;
}

API nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *information)
{
    return NOT_SUPPORTED;
}
