/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_async.c -- input and output that others carry out: glibc's aio, libaio, liburing
 *
 * glibc's threads and the kernel do what is asked for, unseen by the shim. So the files
 * that may be meant are written as usual from then on; of a kernel queue, which may name
 * files by numbers of its own, these are all.
 *
 * Not seen: a queue that the kernel polls by itself (IORING_SETUP_SQPOLL), and one that
 * the program works without the libraries.
 */
#include <aio.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file.h"
#include "promise.h"
#include "real.h"
#include "shim.h"

#define AIO(name, parameters, arguments)                                                           \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        struct file *file = fdtab_file(job->aio_fildes);                                           \
        int error = file != NULL ? file_release(file, job->aio_fildes) : 0;                        \
                                                                                                   \
        promise_settle();                                                                          \
        if (error != 0) {                                                                          \
            errno = error;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
        return real_##name arguments;                                                              \
    }

AIO(aio_write, (struct aiocb * job), (job))
AIO(aio_write64, (struct aiocb64 * job), (job))
AIO(aio_read, (struct aiocb * job), (job))
AIO(aio_read64, (struct aiocb64 * job), (job))
AIO(aio_fsync, (int operation, struct aiocb *job), (operation, job))
AIO(aio_fsync64, (int operation, struct aiocb64 *job), (operation, job))

EXPORT int lio_listio(int mode, struct aiocb *const jobs[], int count, struct sigevent *event)
{
    promise_settle();
    shim_release_open();
    return real_lio_listio(mode, jobs, count, event);
}

EXPORT int lio_listio64(int mode, struct aiocb64 *const jobs[], int count, struct sigevent *event)
{
    promise_settle();
    shim_release_open();
    return real_lio_listio64(mode, jobs, count, event);
}

/* libaio's is the system call, but returns the error. */
int io_submit(void *context, long count, void **jobs);

EXPORT int io_submit(void *context, long count, void **jobs)
{
    int saved = errno, result = shim_release_queued();

    if (result != 0)
        return result;
    result = (int)syscall(SYS_io_submit, context, count, jobs);
    if (result < 0)
        result = -errno;
    errno = saved;
    return result;
}

/*
 * All functions of liburing by which a queue is handed to the kernel (liburing 2.0 to 2.7,
 * liburing.h). Python loads libraries so that only their users see them: then the caller's
 * own is asked.
 */
#define URING(name, parameters, arguments)                                                         \
    int name parameters;                                                                           \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        static int(*_Atomic found) parameters;                                                     \
        int error;                                                                                 \
                                                                                                   \
        if (found == NULL)                                                                         \
            found = (int(*) parameters)(uintptr_t)real_beside(__builtin_return_address(0), #name); \
        if (found == NULL)                                                                         \
            return -ENOSYS;                                                                        \
        error = shim_release_queued();                                                             \
        return error != 0 ? error : found arguments;                                               \
    }

URING(io_uring_submit, (void *ring), (ring))
URING(io_uring_submit_and_wait, (void *ring, unsigned count), (ring, count))
URING(io_uring_submit_and_get_events, (void *ring), (ring))
URING(io_uring_submit_and_wait_timeout,
      (void *ring, void **event, unsigned count, void *time, void *mask),
      (ring, event, count, time, mask))
URING(io_uring_wait_cqe_timeout, (void *ring, void **event, void *time), (ring, event, time))
URING(io_uring_wait_cqes, (void *ring, void **event, unsigned count, void *time, void *mask),
      (ring, event, count, time, mask))
URING(io_uring_enter, (unsigned ring, unsigned count, unsigned least, unsigned flags, void *mask),
      (ring, count, least, flags, mask))
URING(io_uring_enter2,
      (unsigned ring, unsigned count, unsigned least, unsigned flags, void *mask, size_t size),
      (ring, count, least, flags, mask, size))
