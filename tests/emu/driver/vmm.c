/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmm.c -- addresses and memory apart: cuMemAddressReserve, cuMemCreate, cuMemMap
 *
 * A reservation is two ranges of addresses, as a device's memory is: the view, which nobody may
 * touch, and the shadow, where the file of each piece of memory is mapped. What is mapped side by
 * side is one to copies and kernels. Memory goes with its last handle and its last mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu.h"

#define GRANULE ((size_t)2 << 20)

struct memory {
    unsigned held;
    int file;
    size_t size;
    struct device *device;
    bool imported;
};

struct reservation {
    struct reservation *next;
    char *view, *shadow;
    size_t size;
};

static struct reservation *reservations;

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
    return (struct memory *)(uintptr_t)handle;
}

static void memory_drop(struct memory *memory)
{
    if (--memory->held)
        return;
    if (!memory->imported)
        memory->device->used -= memory->size;
    close(memory->file);
    free(memory);
}

/* Addresses in multiples of the granule. */
static char *addresses(size_t size)
{
    char *whole =
        mmap(NULL, size + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *begin;

    if (whole == MAP_FAILED)
        return NULL;
    begin = (char *)(((uintptr_t)whole + GRANULE - 1) / GRANULE * GRANULE);
    if (begin > whole)
        munmap(whole, (size_t)(begin - whole));
    munmap(begin + size, GRANULE - (size_t)(begin - whole));
    return begin;
}

API cuMemGetAllocationGranularity(size_t *granule, const CUmemAllocationProp *properties,
                                  CUmemAllocationGranularity_flags which)
{
    if (!granule || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    *granule = GRANULE;
    return CUDA_SUCCESS;
}

API cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags)
{
    CUresult error = emu_enter();
    struct reservation *made;

    if (error)
        return error;
    if (!address || !size || size % GRANULE || alignment > GRANULE || flags)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    if (!made)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->size = size;
    made->view = addresses(size);
    made->shadow = addresses(size);
    if (!made->view || !made->shadow) {
        free(made);
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->next = reservations;
    reservations = made;
    *address = (uintptr_t)made->view;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemAddressFree(CUdeviceptr address, size_t size)
{
    CUresult error = emu_enter();
    struct reservation **at = &reservations, *found;

    if (error)
        return error;
    while (*at && (uintptr_t)(*at)->view != address)
        at = &(*at)->next;
    found = *at;
    if (!found || found->size != size || emu_range_overlaps((uintptr_t)address, size))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *at = found->next;
    munmap(found->view, size);
    munmap(found->shadow, size);
    free(found);
    return emu_leave(CUDA_SUCCESS);
}

API cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult error = emu_enter();
    struct memory *made;
    struct device *device;

    if (error)
        return error;
    device = properties ? emu_device(properties->location.id) : NULL;
    if (!handle || !size || size % GRANULE || !device ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || flags)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (size > device->size - device->used)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made = calloc(1, sizeof(*made));
    if (!made)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *made = (struct memory){1, memfd_create("emulated-memory", MFD_CLOEXEC), size, device, false};
    if (made->file < 0 || ftruncate(made->file, (off_t)size)) {
        free(made);
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    device->used += size;
    *handle = (uintptr_t)made;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!handle)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    memory_drop(memory_of(handle));
    return emu_leave(CUDA_SUCCESS);
}

/* Not to be reached before cuMemSetAccess. */
API cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags)
{
    CUresult error = emu_enter();
    struct reservation *place = reservations;
    struct memory *memory = memory_of(handle);
    struct range range;

    if (error)
        return error;
    while (place && (address < (uintptr_t)place->view ||
                     address + size > (uintptr_t)place->view + place->size))
        place = place->next;
    if (!place || !memory || !size || size % GRANULE || address % GRANULE || flags || offset ||
        size > memory->size || emu_range_overlaps((uintptr_t)address, size))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    range = (struct range){.base = (uintptr_t)address,
                           .size = size,
                           .kind = RESERVED,
                           .access = place->shadow + (address - (uintptr_t)place->view),
                           .device = memory->device,
                           .mapped = true,
                           .owner = memory};
    if (mmap(range.access, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file, 0) ==
        MAP_FAILED)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    error = emu_range_add(&range);
    if (!error)
        memory->held++;
    return emu_leave(error);
}

static void vacate(struct range *range)
{
    mmap(range->access, range->size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    memory_drop(range->owner);
}

static void unmap(struct range *range)
{
    vacate(range);
    emu_range_remove(range->base);
}

/* Whether it consists of whole mappings; do_with() is called with each if it does. */
static bool each(uintptr_t from, size_t size, void (*do_with)(struct range *))
{
    struct range *range;

    for (uintptr_t at = from; at < from + size; at = range->base + range->size) {
        range = emu_range_find(at);
        if (!range || range->base != at || !range->mapped || at + range->size > from + size)
            return false;
    }
    for (uintptr_t at = from, next; at < from + size; at = next) {
        range = emu_range_find(at);
        next = at + range->size;
        do_with(range);
    }
    return true;
}

API cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    return emu_leave(each((uintptr_t)address, size, unmap) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE);
}

static void open_up(struct range *range)
{
    range->kind = DEVICE;
    range->context = range->device->primary;
}

/* Of devices other than its own it is the peers' business. */
API cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!access || !count)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(each((uintptr_t)address, size, open_up) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE);
}

API cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    CUresult error = emu_enter();
    struct range *range;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    if (!range || !range->mapped || !flags)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = range->kind == DEVICE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult error = emu_enter();
    struct range *range;

    if (error)
        return error;
    range = emu_range_find((uintptr_t)address);
    if (!range || !range->mapped || !handle)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    ((struct memory *)range->owner)->held++;
    *handle = (uintptr_t)range->owner;
    return emu_leave(CUDA_SUCCESS);
}

API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                           CUmemGenericAllocationHandle handle)
{
    CUresult error = emu_enter();

    if (error)
        return error;
    if (!properties || !handle)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *properties = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, memory_of(handle)->device->ordinal},
    };
    return emu_leave(CUDA_SUCCESS);
}

API cuMemExportToShareableHandle(void *descriptor, CUmemGenericAllocationHandle handle,
                                 CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult error = emu_enter();
    int file;

    if (error)
        return error;
    if (!descriptor || !handle || flags)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    file = fcntl(memory_of(handle)->file, F_DUPFD_CLOEXEC, 0);
    if (file < 0)
        return emu_leave(CUDA_ERROR_OPERATING_SYSTEM);
    *(int *)descriptor = file;
    return emu_leave(CUDA_SUCCESS);
}

/* The descriptor does not say which device: it is the current one's here. */
API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *descriptor,
                                   CUmemAllocationHandleType type)
{
    CUcontext current;
    CUresult error = emu_enter_context(&current);
    struct memory *made;
    struct stat status;
    int file;

    if (error)
        return error;
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    file = fcntl((int)(intptr_t)descriptor, F_DUPFD_CLOEXEC, 0);
    made = file < 0 || fstat(file, &status) ? NULL : calloc(1, sizeof(*made));
    if (!made)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *made = (struct memory){1, file, (size_t)status.st_size, current->device, true};
    *handle = (uintptr_t)made;
    return emu_leave(CUDA_SUCCESS);
}

static bool of_context(struct range *range, void *context)
{
    if (!range->mapped || range->device != ((CUcontext)context)->device)
        return false;
    vacate(range);
    return true;
}

void emu_mapped_end(CUcontext context)
{
    if (context == context->device->primary)
        emu_range_each(of_context, context);
}
