/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c -- the devices: their memory, properties, peers
 *
 * A device's memory is a file in memory that is mapped twice: once without any right, where the
 * program sees it, and once for the emulator. A CPU that touches "device memory" gets SIGSEGV.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"

struct device emu_devices[EMU_DEVICES];
int emu_devices_count;

uint64_t emu_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    uint64_t value;

    if (!text || !*text)
        return otherwise;
    value = strtoull(text, &end, 10);
    switch (*end) {
    case 'G':
        value <<= 10; /* fall through */
    case 'M':
        value <<= 10; /* fall through */
    case 'K':
        value <<= 10;
        end++;
    }
    if (*end) {
        fprintf(stderr, "emu: %s=%s is no number\n", name, text);
        _exit(2);
    }
    return value;
}

CUresult emu_devices_begin(void)
{
    size_t size = emu_setting("EMU_MEMORY", (uint64_t)8 << 30);
    int count = (int)emu_setting("EMU_DEVICES", 2);

    if (count < 1 || count > EMU_DEVICES)
        return CUDA_ERROR_NO_DEVICE;
    for (int i = 0; i < count; i++) {
        struct device *device = &emu_devices[i];
        int file = memfd_create("emulated-device", MFD_CLOEXEC);

        if (file < 0 || ftruncate(file, (off_t)size) != 0)
            return CUDA_ERROR_OPERATING_SYSTEM;
        device->view =
            mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        device->shadow = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (device->view == MAP_FAILED || device->shadow == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        device->ordinal = i;
        device->size = size;
        device->file = file;
    }
    emu_devices_count = count;
    return CUDA_SUCCESS;
}

struct device *emu_device(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < emu_devices_count ? &emu_devices[ordinal] : NULL;
}

API cuDeviceGetCount(int *count)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!count)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *count = emu_devices_count;
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!device || !emu_device(ordinal))
        return emu_leave(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    *device = ordinal;
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !name || length < 1)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)length, "Emulated GPU");
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !uuid)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(uuid->bytes, "emulated GPU  ##", 16);
    uuid->bytes[15] = (char)('0' + device);
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !bytes)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = emu_devices[device].size;
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !text || length < 13)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
    return emu_leave(CUDA_SUCCESS);
}

API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !emu_device(peer) || !can)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *can = device != peer;
    return emu_leave(CUDA_SUCCESS);
}

static int attribute(CUdevice_attribute what, CUdevice device)
{
    switch ((int)what) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 49152;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 1000000;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return 232448;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return device + 1;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        return emu_setting("EMU_PAGEABLE_ACCESS", 0) != 0;
    }
    return 0;
}

API cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!emu_device(device) || !value)
        return emu_leave(value ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    *value = attribute(what, device);
    return emu_leave(CUDA_SUCCESS);
}
