/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.c -- random schedules of streams, kernels, copies, writes, forks and frees
 *
 *     schedule FIRST COUNT [-v]
 *
 * Each number is a schedule of its own, done by one thread or by two at once. All that is done is
 * done to a model, too, at once and in the order of the program: works of different streams that
 * touch the same memory are ordered by events, so that there is one right result. Host memory is
 * compared with the model again and again, here and in forked children; of each file a line is
 * printed, with its size and CRC-32 as the model has them, to be compared by somebody else.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "schedule.h"

#define FILE_MOST (6 * MIB)
#define STEPS 50

static CUcontext context;

/* ---- steps ---- */

static void step_kernel(struct life *life)
{
    struct memory *m = &life->buffer[below(life, BUFFERS)];
    struct memory *other = &life->buffer[below(life, BUFFERS)];
    CUstream stream = some_stream(life);
    uint64_t nanoseconds = below(life, 300000), count;

    if (below(life, 2))
        launch(life, spin_function, stream, &nanoseconds, NULL, NULL);
    if (m == other || below(life, 2)) {
        size_t at = below(life, m->size - 8);

        stamp(life, m, at, 1 + below(life, m->size - at), stream);
        return;
    }
    use(life, m, stream);
    use(life, other, stream);
    count = below(life, MOST / 4);
    launch(life, add_function, stream, &m->device, &other->device, &count);
    for (uint64_t i = 0; i < count; i++)
        ((uint32_t *)m->model)[i] += ((uint32_t *)other->model)[i];
}

static void write_out(struct life *life, struct memory *m, bool pinned);

static void step_copy_out(struct life *life)
{
    struct memory *from = &life->buffer[below(life, BUFFERS)],
                  *to = &life->host[below(life, HOSTS)];
    size_t size = some_size(life, to->size);
    size_t at = below(life, to->size - size + 1), there = below(life, from->size - size + 1);
    CUstream stream = some_stream(life);

    tell(life, "copy out", (size_t)(to - life->host), size);
    switch (below(life, 4)) {
    case 0: /* on the default stream, behind the owner */
        use(life, from, CU_STREAM_LEGACY);
        ok(cuMemcpyDtoH_v2(to->host + at, from->device + there, size));
        break;
    case 1:
        use(life, from, CU_STREAM_LEGACY);
        ok(cuMemcpy((uintptr_t)to->host + at, from->device + there, size));
        break;
    case 2:
        use(life, from, stream);
        ok(cuMemcpyAsync((uintptr_t)to->host + at, from->device + there, size, stream));
        break;
    default:
        use(life, from, stream);
        ok(cuMemcpyDtoHAsync_v2(to->host + at, from->device + there, size, stream));
    }
    memcpy(to->model + at, from->model + there, size);
    if (below(life, 2)) /* and at once its source is another */
        stamp(life, from, 0, from->size, some_stream(life));
    if (below(life, 2))
        write_out(life, to, false);
}

static void step_copy_in(struct life *life)
{
    struct memory *to = &life->buffer[below(life, BUFFERS)],
                  *from = &life->host[below(life, HOSTS)];
    size_t size = some_size(life, from->size), at = below(life, to->size - size + 1);
    CUstream stream = some_stream(life);

    tell(life, "copy in", (size_t)(from - life->host), size);
    use(life, to, stream);
    ok(cuMemcpyHtoDAsync_v2(to->device + at, from->host, size, stream));
    memcpy(to->model + at, from->model, size);
}

static void step_copy_along(struct life *life)
{
    struct memory *to = &life->buffer[below(life, BUFFERS)];
    struct memory *from = &life->buffer[below(life, BUFFERS)];
    size_t size = some_size(life, MOST);
    CUstream stream = some_stream(life);

    if (to == from)
        return;
    use(life, to, stream);
    use(life, from, stream);
    ok(cuMemcpyDtoDAsync_v2(to->device, from->device, size, stream));
    memcpy(to->model, from->model, size);
}

static void step_pinned(struct life *life)
{
    struct memory *from = &life->buffer[below(life, BUFFERS)];
    struct memory *to = &life->pinned[below(life, PINNED)];
    CUstream stream = some_stream(life);
    size_t size = some_size(life, to->size);

    use(life, from, stream);
    use(life, to, stream);
    ok(cuMemcpyDtoHAsync_v2(to->host, from->device, size, stream));
    memcpy(to->model, from->model, size);
}

static void step_replay(struct life *life)
{
    struct replay *r = &life->replay;
    CUstream stream = life->stream[below(life, 2)];
    CUgraph graph;

    if (!r->exec) {
        r->from = &life->buffer[below(life, BUFFERS)];
        r->to = &life->pinned[below(life, PINNED)];
        r->size = some_size(life, r->to->size);
        use(life, r->from, stream);
        use(life, r->to, stream);
        ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(cuMemcpyDtoHAsync_v2(r->to->host, r->from->device, r->size, stream));
        ok(cuStreamEndCapture(stream, &graph));
        ok(cuGraphInstantiateWithFlags(&r->exec, graph, 0));
        ok(cuGraphDestroy(graph));
    }
    use(life, r->from, stream);
    use(life, r->to, stream);
    ok(cuGraphLaunch(r->exec, stream));
    memcpy(r->to->model, r->from->model, r->size);
}

static void step_touch(struct life *life)
{
    struct memory *m = &life->host[below(life, HOSTS)];
    size_t size = 1 + below(life, below(life, 2) ? 100 : m->size);
    size_t at = below(life, m->size - (size < m->size ? size : m->size) + 1);

    size = size < m->size - at ? size : m->size - at;
    tell(life, "touch", (size_t)(m - life->host), size);
    memset(m->host + at, (int)life->step, size);
    memset(m->model + at, (int)life->step, size);
}

/* What the kernel does with the addresses, and what libc does with them. */
static void step_remap(struct life *life)
{
    struct memory *m = &life->host[below(life, HOSTS)];
    size_t size = some_size(life, MOST), pages = m->size / PAGE * PAGE;
    char *moved;

    tell(life, "remap", (size_t)(m - life->host), size);
    switch (m->mapped ? below(life, 4) : 4) {
    case 0:
        moved = mremap(m->host, m->size, size, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED && errno == EFAULT && m->parted)
            return;
        must(moved != MAP_FAILED);
        m->host = moved;
        m->parted = false;
        /* The rest of the last page was there, and stays. */
        if (size > m->size)
            memset(m->host + m->size, 0, size - m->size);
        break;
    case 1:
        must(!pages || madvise(m->host, pages, MADV_DONTNEED) == 0);
        memset(m->model, 0, pages);
        return;
    case 2:
        must(mprotect(m->host, m->size, PROT_READ) == 0);
        must(!memcmp(m->host, m->model, m->size));
        must(mprotect(m->host, m->size, PROT_READ | PROT_WRITE) == 0);
        return;
    case 3:
        /* In one call: in the hole that munmap leaves a thread that begins may have its stack. */
        must(!pages || mmap(m->host, pages, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m->host);
        m->parted = true;
        memset(m->model, 0, pages);
        return;
    default:
        moved = realloc(m->host, size);
        must(moved);
        m->host = moved;
        if (size > m->size)
            memset(m->host + m->size, 0, size - m->size);
    }
    if (size > m->size)
        memset(m->model + m->size, 0, size - m->size);
    m->size = size;
}

static void step_renew(struct life *life)
{
    struct memory *m;

    if (below(life, 2)) {
        m = &life->host[below(life, HOSTS)];
        tell(life, "renew host", (size_t)(m - life->host), 0);
        host_end(life, m);
        host_begin(life, m);
    } else {
        m = &life->buffer[below(life, BUFFERS)];
        buffer_end(life, m);
        buffer_begin(life, m);
    }
}

static void file_end(struct life *life);

static void file_begin(struct life *life)
{
    snprintf(life->name, sizeof(life->name), "%llu-%u-%u.ckpt", (unsigned long long)life->seed,
             life->thread, life->files++);
    life->file = open(life->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(life->file >= 0);
    life->size = life->at = 0;
}

static void write_out(struct life *life, struct memory *m, bool pinned)
{
    size_t size = below(life, 3) ? m->size : some_size(life, m->size);
    size_t from = below(life, m->size - size + 1), at = life->at;

    if (below(life, 6) == 0) /* over what was written before */
        at = below(life, life->size + 1);
    if (at + size > FILE_MOST) {
        file_end(life);
        file_begin(life);
        at = 0;
    }
    if (pinned)
        ok(cuStreamSynchronize(m->owner));
    tell(life, pinned ? "write pinned" : "write", (size_t)(m - life->host), size);
    if (at == life->at) {
        must(write(life->file, m->host + from, size) == (ssize_t)size);
        life->at += size;
    } else {
        must(pwrite(life->file, m->host + from, size, (off_t)at) == (ssize_t)size);
    }
    if (at > life->size)
        memset(life->model + life->size, 0, at - life->size);
    memcpy(life->model + at, m->model + from, size);
    if (at + size > life->size)
        life->size = at + size;
    if (below(life, 4) == 0) /* changed when it has been written */
        step_touch(life);
}

static void step_write(struct life *life)
{
    if (below(life, 5))
        write_out(life, &life->host[below(life, HOSTS)], false);
    else
        write_out(life, &life->pinned[below(life, PINNED)], true);
}

static void child_end(struct life *life)
{
    int status;

    if (!life->child)
        return;
    must(waitpid(life->child, &status, 0) == life->child);
    must(status == 0);
    life->child = 0;
}

/* The child sees what was there at the fork, whatever becomes of it in its parent, and changes it.
 */
static void step_fork(struct life *life)
{
    child_end(life);
    tell(life, "fork", 0, 0);
    life->child = fork();
    must(life->child >= 0);
    if (life->child)
        return;
    usleep((useconds_t)below(life, 3000));
    for (int i = 0; i < HOSTS; i++) {
        struct memory *m = &life->host[i];

        if (memcmp(m->host, m->model, m->size))
            _exit(3);
        memset(m->host, 0x77, m->size);
    }
    _exit(0);
}

static const struct {
    void (*step)(struct life *);
    unsigned weight;
} steps[] = {
    {step_kernel, 6}, {step_copy_out, 10}, {step_copy_in, 2}, {step_copy_along, 2},
    {step_pinned, 2}, {step_replay, 2},    {step_write, 6},   {step_touch, 4},
    {step_remap, 2},  {step_renew, 3},     {step_fork, 1},
};

/* ---- a life ---- */

static uint32_t crc(const char *bytes, size_t size)
{
    static uint32_t table[256];
    uint32_t value = ~0u;

    if (!table[255])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;

            for (int k = 0; k < 8; k++)
                c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
            table[i] = c;
        }
    for (size_t i = 0; i < size; i++)
        value = table[(value ^ (unsigned char)bytes[i]) & 255] ^ value >> 8;
    return ~value;
}

static void file_end(struct life *life)
{
    if (below(life, 8) == 0)
        must(fsync(life->file) == 0);
    must(close(life->file) == 0);
    printf("%s %zu %08x\n", life->name, life->size, crc(life->model, life->size));
}

static void begin(struct life *life)
{
    life->random = (life->seed * 2 + life->thread + 1) * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < 16; i++)
        next(life);
    /* The first two can be captured; the others are a blocking one and the default ones. */
    for (int i = 0; i < 3; i++)
        ok(cuStreamCreate(&life->stream[i], i < 2 ? CU_STREAM_NON_BLOCKING : 0));
    life->stream[3] = CU_STREAM_PER_THREAD;
    life->stream[4] = CU_STREAM_LEGACY;
    ok(cuEventCreate(&life->event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < BUFFERS; i++)
        must((life->buffer[i].model = malloc(MOST)));
    for (int i = 0; i < HOSTS; i++)
        must((life->host[i].model = malloc(MOST)));
    for (int i = 0; i < PINNED; i++) {
        struct memory *m = &life->pinned[i];

        must((m->model = calloc(1, 2 * MIB)));
        m->size = 2 * MIB;
        ok(cuMemHostAlloc((void **)&m->host, m->size, 0));
        memset(m->host, 0, m->size);
        m->owner = life->stream[0];
    }
    must((life->model = malloc(FILE_MOST)));
    for (int i = 0; i < BUFFERS; i++)
        buffer_begin(life, &life->buffer[i]);
    for (int i = 0; i < HOSTS; i++)
        host_begin(life, &life->host[i]);
    file_begin(life);
}

static void end(struct life *life)
{
    check_hosts(life);
    child_end(life);
    file_end(life);
    replay_end(life);
    for (int i = 0; i < BUFFERS; i++) {
        buffer_end(life, &life->buffer[i]);
        free(life->buffer[i].model);
    }
    for (int i = 0; i < HOSTS; i++) {
        host_end(life, &life->host[i]);
        free(life->host[i].model);
    }
    for (int i = 0; i < PINNED; i++) {
        ok(cuStreamSynchronize(life->pinned[i].owner));
        must(!memcmp(life->pinned[i].host, life->pinned[i].model, life->pinned[i].size));
        ok(cuMemFreeHost(life->pinned[i].host));
        free(life->pinned[i].model);
    }
    for (int i = 0; i < 3; i++)
        ok(cuStreamDestroy_v2(life->stream[i]));
    ok(cuEventDestroy_v2(life->event));
    free(life->model);
}

static void *live(void *argument)
{
    struct life *life = argument;
    unsigned total = 0;

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        total += steps[i].weight;
    ok(cuCtxSetCurrent(context));
    begin(life);
    for (life->step = 0; life->step < STEPS; life->step++) {
        size_t choice = below(life, total), i = 0;

        while (choice >= steps[i].weight)
            choice -= steps[i++].weight;
        steps[i].step(life);
        if (below(life, 16) == 0 || verbose) /* -v draws as much: the schedule is the same */
            check_hosts(life);
    }
    end(life);
    return NULL;
}

int main(int count, char **arguments)
{
    struct life nobody = {0}, *life = &nobody;
    CUmodule module;

    if (count < 3)
        return 2;
    verbose = count > 3;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuModuleLoadData(&module, kernels_ptx));
    ok(cuModuleGetFunction(&stamp_function, module, "stamp"));
    ok(cuModuleGetFunction(&add_function, module, "add"));
    ok(cuModuleGetFunction(&spin_function, module, "spin"));
    for (uint64_t seed = strtoull(arguments[1], NULL, 10), left = strtoull(arguments[2], NULL, 10);
         left; left--, seed++) {
        struct life lives[2] = {{.seed = seed}, {.seed = seed, .thread = 1}};
        pthread_t thread;

        must(seed % 4 || !pthread_create(&thread, NULL, live, &lives[1]));
        live(&lives[0]);
        must(seed % 4 || !pthread_join(thread, NULL));
    }
    return 0;
}
