/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emu.h -- what the files of the emulated driver share
 *
 * One lock guards everything but the bytes in memory. It is held by all functions here that are not
 * said to be called without it, and by no thread that copies, runs a kernel or calls the program.
 */
#ifndef EMU_H
#define EMU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../abi.h"

#define API __attribute__((visibility("default"))) CUresult
#define EMU_DRIVER_VERSION 13000
#define EMU_DEVICES 8 /* at most */
#define EMU_PAGE ((size_t)4096)

static inline size_t emu_whole_pages(size_t size)
{
    return (size + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE;
}

/* ---- context.c: the lock, the calling thread, contexts ---- */

extern pthread_mutex_t emu_lock;
extern pthread_cond_t emu_progress; /* a stream went on */

struct CUctx_st {
    struct device *device;
    CUresult error; /* sticky */
    bool destroyed;
    unsigned retained; /* the primary one */
    unsigned flags;
    unsigned long long id;
    CUstream *streams; /* all but the legacy default one */
    unsigned streams_count;
    CUstream legacy;
    unsigned peers; /* a bit for each device whose memory it may reach */
};

/* What has been asked for so far; a benchmark reads it by that name. */
extern struct emu_counts {
    uint64_t calls;
    uint64_t copies, pageable, pinned; /* to the host: how many; bytes, by where to */
} emu_counts;

/* Each entry point begins with one of these: takes the lock unless it returns an error. */
CUresult emu_enter(void);                       /* the driver is initialized */
CUresult emu_enter_context(CUcontext *current); /* and there is a context without an error */
CUresult emu_leave(CUresult result);            /* releases the lock; returns what it is given */

CUcontext emu_current(void); /* of this thread, or NULL */
struct device *emu_device(CUdevice ordinal);
bool emu_reaches(CUcontext context, const struct device *device);

/* ---- device.c ---- */

struct device {
    int ordinal;
    size_t size, used; /* bytes of memory */
    int file;          /* its memory: byte n of it is byte n of this file */
    char *view;        /* where the program believes it: nobody may touch it there */
    char *shadow;      /* where the emulator reaches it */
    CUcontext primary;
};

extern struct device emu_devices[EMU_DEVICES];
extern int emu_devices_count;
CUresult emu_devices_begin(void);
uint64_t emu_setting(const char *name, uint64_t otherwise); /* EMU_NAME; K, M, G behind a number */

/* ---- range.c: which memory an address belongs to ---- */

enum range_kind { PAGEABLE, DEVICE, HOST_ALLOCATED, HOST_REGISTERED, MANAGED, RESERVED };

struct range {
    uintptr_t base;
    size_t size;
    enum range_kind kind;
    char *access; /* where the emulator reads and writes it */
    struct device *device;
    CUcontext context;
    unsigned flags;
    uint64_t id;
    bool mapped;       /* by cuMemMap */
    CUmemoryPool pool; /* that it is a block of */
    struct pin *pin;   /* its pages are held; or NULL */
    void *owner;       /* of what made it: vmm, pool, ipc */
};

CUresult emu_range_add(const struct range *range);
void emu_range_remove(uintptr_t base);
struct range *emu_range_find(uintptr_t address); /* that holds the address, or NULL */
struct range *emu_range_overlaps(uintptr_t address, size_t size); /* the first of them, or NULL */
void emu_range_each(bool (*gone)(struct range *, void *), void *argument);
/* A gap in [from, to) of whole pages; 0: none. */
uintptr_t emu_range_gap(uintptr_t from, uintptr_t to, size_t size);

/* Where to reach size bytes that the program calls address; NULL: the device may not. */
char *emu_reach(CUcontext context, uintptr_t address, size_t size);
char *emu_reach_at_work(CUcontext context, uintptr_t address, size_t size); /* without the lock */
void emu_memory_free(struct range *range);                                  /* of cuMemAlloc */
CUresult emu_memory_allocate(CUcontext context, struct device *device, size_t size, void *owner,
                             struct range *range);
bool emu_pool_free(struct range *range);
void emu_pools_end(struct device *device);
void emu_mapped_end(CUcontext context);
void emu_host_free(struct range *range); /* allocated or managed */
void emu_memory_end(CUcontext context);  /* all of a context that ends */
void emu_host_end(CUcontext context);

/* ---- pin.c ---- */

struct pin *emu_pin(uintptr_t base, size_t size); /* NULL: it cannot be had here */
void emu_pin_drop(struct pin *pin); /* what still copies fails */
void emu_pin_use(struct pin *pin);
void emu_pin_leave(struct pin *pin);
/* Without the lock: between those pages and the emulator's own memory. */
bool emu_pin_copy(struct pin *pin, uintptr_t address, char *bytes, size_t size, bool to_pages);

/* ---- stream.c ---- */

struct nodes {
    CUgraphNode *node;
    size_t count;
};

struct wait {
    CUstream stream;
    uint64_t number;
};

/* One thing that a stream does; the functions' own data stand behind it. */
struct work {
    struct work *next;
    uint64_t number;
    unsigned held;
    CUcontext context;
    unsigned waits;
    struct wait *wait;
    CUresult (*run)(struct work *work); /* without the lock; may run more than once (graphs) */
    void (*done)(struct work *work);    /* with the lock, after it ran: or NULL */
    void (*end)(struct work *work);     /* what it owns; or NULL */
};

/* Never freed: what waits for it may outlive it. */
struct CUstream_st {
    uint32_t magic; /* of one that can be used */
    CUcontext context;
    bool legacy, blocking, ended;
    unsigned flags;
    int priority;
    unsigned long long id;
    uint64_t queued, finished; /* numbers of the last work */
    struct work *first, *last, *current;
    bool running; /* has a thread */
    pthread_cond_t arrived;
    struct capture *capture; /* NULL: works are done */
    struct nodes tail;       /* what the next one depends on, while captured */
};

void *emu_work(size_t size, CUresult (*run)(struct work *));
void emu_work_wait(struct work *work, CUstream stream, uint64_t number);
void emu_work_drop(struct work *work);

/* Enters, and finds what a handle stands for in the current context: also 0, 1 and 2. Returns
   wrong, if that is an error: what is wrong with what else the caller was given. */
CUresult emu_enter_stream(CUstream handle, CUresult wrong, CUstream *stream);
/* Queues it, and takes it over in any case; *number (or NULL) is what to await. While the stream
   is captured it becomes a node of the graph instead, and *number is 0. */
CUresult emu_submit(CUstream stream, struct work *work, uint64_t *number);
void emu_await(CUstream stream, uint64_t number); /* gives the lock away meanwhile */
void emu_await_context(CUcontext context);
void emu_await_device(struct device *device);
void emu_streams_end(CUcontext context);
bool emu_in_callback(void);
void emu_sleep(uint64_t nanoseconds); /* without the lock */
static inline CUstream emu_per_thread(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* ---- graph.c ---- */

struct CUgraphNode_st {
    struct work *work; /* NULL: nothing but an order */
    struct nodes after;
    bool reached; /* of capture.c */
};

struct CUgraph_st {
    struct nodes nodes; /* each behind those that it depends on */
    struct user {
        struct CUuserObject_st *object;
        unsigned count;
    } * users;
    unsigned users_count;
};

CUgraph emu_graph(void);
CUgraphNode emu_graph_add(CUgraph graph, struct work *work, const struct nodes *after);
void emu_graph_drop(CUgraph graph);
bool emu_nodes_add(struct nodes *nodes, const struct nodes *more); /* those it has not */
bool emu_nodes_set(struct nodes *nodes, const struct nodes *those);

/* ---- capture.c ---- */

/* Whether this thread may do what is unsafe while streams are captured; if not, they are void. */
CUresult emu_unsafe(void);
CUresult emu_unsafe_stream(CUstream stream); /* to wait for it is an error, and voids its capture */
CUresult emu_captured(CUstream stream, struct work *work); /* takes it over */
CUresult emu_capture_implicit(CUcontext context); /* use of the legacy stream beside captures */
CUresult emu_capture_join(CUstream stream, struct capture *capture, const struct nodes *after);
CUresult emu_capture_void(struct capture *capture, CUresult error); /* returns the error */
void emu_capture_end(CUstream stream); /* it goes while it is captured */

/* Defines `name` and its form for the per-thread default stream, which both call name_on. */
#define STREAMED(name, parameters, arguments)                                                      \
    API name parameters                                                                            \
    {                                                                                              \
        return name##_on arguments;                                                                \
    }                                                                                              \
    API name##_ptsz parameters                                                                     \
    {                                                                                              \
        stream = emu_per_thread(stream);                                                           \
        return name##_on arguments;                                                                \
    }
#endif
