/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_filling.c -- other threads save while promised memory is filled, which takes long
 * run: captures=2 referred=20 modes=default,copied timeout=20
 *
 * A userfaultfd keeps one page from being written to, and who fills it from going on. Where there is
 * none for us, nothing is slow. Right: nobody else waits for that.
 */
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

static char *slow;
static int faults, pipes[2];
static _Atomic int over;

static void protect(int on)
{
    struct uffdio_writeprotect page = {.range = {(uintptr_t)slow + MIB, 4096},
                                       .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

    if (faults >= 0)
        must(ioctl(faults, UFFDIO_WRITEPROTECT, &page));
}

static void begin_faults(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
    struct uffdio_register range = {.range = {(uintptr_t)slow, SIZE}, .mode = UFFDIO_REGISTER_MODE_WP};

    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults >= 0 && (ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &range) != 0)) {
        close(faults);
        faults = -1;
    }
    protect(1);
}

/* Pages that go into a pipe are to be the program's own: all are filled. */
static void *give(void *other)
{
    struct iovec vector = {other, 4096};

    check(vmsplice(pipes[1], &vector, 1, 0) == 4096);
    over = 1;
    return NULL;
}

int main(void)
{
    char *to = anonymous(SIZE), got[4096];
    pthread_t thread;
    int fd;

    begin();
    must(pipe(pipes));
    fd = create("a.ckpt");
    slow = anonymous(SIZE);
    copy(slow, SIZE, 1);
    begin_faults();
    check(pthread_create(&thread, NULL, give, to) == 0);
    /* Until it is held up; plainly, and where nothing is promised, it is not. */
    poll(&(struct pollfd){.fd = faults, .events = POLLIN}, 1, 1000);
    alarm(5);
    for (uint32_t i = 0; i < 4; i++) {
        copy(to + 4096, SIZE - 4096, 10 + i);
        check(stamped(to + 4096, SIZE - 4096, 10 + i));
        put(fd, to + 4096, SIZE - 4096);
        must(madvise(to + MIB, MIB, MADV_DONTNEED));
        check(zeros(to + MIB, MIB));
        must(mprotect(to + 2 * MIB, 8192, PROT_READ));
        must(mprotect(to + 2 * MIB, 8192, PROT_READ | PROT_WRITE));
    }
    if (getenv("SAY"))
        fprintf(stderr, "userfaultfd %d, over %d\n", faults, over);
    protect(0);
    check(pthread_join(thread, NULL) == 0);
    check(read(pipes[0], got, sizeof(got)) == sizeof(got) && zeros(got, sizeof(got)));
    check(stamped(slow, SIZE, 1));
    put(fd, slow, SIZE);
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
