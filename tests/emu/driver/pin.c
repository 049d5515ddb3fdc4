/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pin.c -- pages that stay where they are: registered host memory
 *
 * A device writes to the pages that were there when they were registered, whatever is mapped at
 * their address now, or has become of their file. io_uring's registered buffers do the same: the
 * kernel holds the pages, and reads a file into them or writes them to one. The file is a window
 * that the copying thread has mapped. Where there is no io_uring, addresses are used as they are.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu.h"

#define PIECE ((size_t)1 << 30) /* the most that io_uring takes in one buffer */
#define PIECES 64
#define WINDOW ((size_t)256 << 10)

/* Not libc's function, which others interpose: this is what a driver does in the kernel. */
static long kernel(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = 0, r9 __asm__("r9") = 0;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

struct pin {
    pthread_mutex_t lock; /* for the queue */
    int ring, file;
    char *window, *queue;
    struct io_uring_sqe *entries;
    struct io_uring_params parameters;
    size_t queue_size;
    uintptr_t base;
    unsigned users; /* copies under way, with emu_lock */
    _Atomic bool gone;
};

/*
 * The kernel books what is pinned on the process that made the queue, and shows it as VmPin.
 * NVIDIA's driver books nothing: so another process makes it, which shares our descriptors.
 */
static int queue_of_another(struct io_uring_params *p)
{
    struct {
        struct io_uring_params p;
        long ring;
    } *shared = mmap(NULL, EMU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long child;
    int ring;

    if (shared == MAP_FAILED)
        return -1;
    shared->ring = -1;
    child = kernel(SYS_clone, CLONE_FILES, 0, 0, 0);
    if (child == 0) {
        shared->ring = kernel(SYS_io_uring_setup, 1, (long)&shared->p, 0, 0);
        kernel(SYS_exit_group, 0, 0, 0, 0);
    }
    while (child > 0 && kernel(SYS_wait4, child, 0, __WALL, 0) == -EINTR)
        ;
    ring = (int)shared->ring;
    *p = shared->p;
    munmap(shared, EMU_PAGE);
    return ring;
}

static bool begin(struct pin *pin)
{
    struct io_uring_params *p = &pin->parameters;
    size_t size, other;

    pin->ring = queue_of_another(p);
    pin->file = memfd_create("emulated-window", MFD_CLOEXEC);
    if (pin->ring < 0 || !(p->features & IORING_FEAT_SINGLE_MMAP) || pin->file < 0 ||
        ftruncate(pin->file, WINDOW))
        return false;
    size = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    other = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    pin->queue_size = size > other ? size : other;
    pin->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, pin->file, 0);
    pin->queue = mmap(NULL, pin->queue_size, PROT_READ | PROT_WRITE, MAP_SHARED, pin->ring,
                      IORING_OFF_SQ_RING);
    pin->entries =
        mmap(NULL, EMU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, pin->ring, IORING_OFF_SQES);
    return pin->window != MAP_FAILED && pin->queue != MAP_FAILED && pin->entries != MAP_FAILED;
}

struct pin *emu_pin(uintptr_t base, size_t size)
{
    struct iovec pieces[PIECES];
    unsigned count = 0;
    struct pin *pin = calloc(1, sizeof(*pin));

    if (!pin)
        return NULL;
    pthread_mutex_init(&pin->lock, NULL);
    pin->base = base;
    pin->ring = pin->file = -1;
    for (uintptr_t at = base; at < base + size && count < PIECES; at += PIECE, count++) {
        pieces[count].iov_base = (void *)at;
        pieces[count].iov_len = base + size - at < PIECE ? base + size - at : PIECE;
    }
    if (size <= PIECES * PIECE && begin(pin) &&
        !kernel(SYS_io_uring_register, pin->ring, IORING_REGISTER_BUFFERS, (long)pieces, count))
        return pin;
    emu_pin_drop(pin);
    return NULL;
}

void emu_pin_drop(struct pin *pin)
{
    if (!pin)
        return;
    pin->gone = true;
    if (pin->users)
        return;
    if (pin->window && pin->window != MAP_FAILED)
        munmap(pin->window, WINDOW);
    if (pin->entries && pin->entries != MAP_FAILED)
        munmap(pin->entries, EMU_PAGE);
    if (pin->queue && pin->queue != MAP_FAILED)
        munmap(pin->queue, pin->queue_size);
    if (pin->file >= 0)
        close(pin->file);
    if (pin->ring >= 0)
        close(pin->ring);
    free(pin);
}

void emu_pin_use(struct pin *pin)
{
    if (pin)
        pin->users++;
}

void emu_pin_leave(struct pin *pin)
{
    if (pin && !--pin->users && pin->gone)
        emu_pin_drop(pin);
}

/* One transfer between the window and the pages; with the lock. */
static bool transfer(struct pin *pin, unsigned char what, uintptr_t address, size_t size)
{
    struct io_uring_params *p = &pin->parameters;
    _Atomic uint32_t *tail = (void *)(pin->queue + p->sq_off.tail);
    _Atomic uint32_t *seen = (void *)(pin->queue + p->cq_off.head);
    uint32_t mask = *(uint32_t *)(pin->queue + p->sq_off.ring_mask);
    uint32_t done_mask = *(uint32_t *)(pin->queue + p->cq_off.ring_mask);
    uint32_t slot = *tail & mask;
    const struct io_uring_cqe *done;
    long error;
    int result;

    memset(&pin->entries[slot], 0, sizeof(*pin->entries));
    pin->entries[slot].opcode = what;
    pin->entries[slot].fd = pin->file;
    pin->entries[slot].addr = address;
    pin->entries[slot].len = (uint32_t)size;
    pin->entries[slot].buf_index = (uint16_t)((address - pin->base) / PIECE);
    ((uint32_t *)(pin->queue + p->sq_off.array))[slot] = slot;
    atomic_fetch_add(tail, 1);
    do
        error = kernel(SYS_io_uring_enter, pin->ring, 1, 1, IORING_ENTER_GETEVENTS);
    while (error == -EINTR);
    if (error < 0)
        return false;
    done = (struct io_uring_cqe *)(pin->queue + p->cq_off.cqes) + (*seen & done_mask);
    result = done->res;
    atomic_fetch_add(seen, 1);
    return result == (int)size;
}

/* In pieces that lie in one buffer and in the window. */
bool emu_pin_copy(struct pin *pin, uintptr_t address, char *bytes, size_t size, bool to_pages)
{
    bool all = true;

    pthread_mutex_lock(&pin->lock);
    for (size_t done = 0, part; all && done < size; done += part) {
        size_t left = PIECE - (address + done - pin->base) % PIECE;

        part = size - done < WINDOW ? size - done : WINDOW;
        part = part < left ? part : left;
        if (to_pages)
            memcpy(pin->window, bytes + done, part);
        all = !pin->gone && transfer(pin, to_pages ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED,
                                     address + done, part);
        if (all && !to_pages)
            memcpy(bytes + done, pin->window, part);
    }
    pthread_mutex_unlock(&pin->lock);
    return all;
}
