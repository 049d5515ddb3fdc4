/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unlogged.c -- a file that is not captured yet changes by what is no write(2), beside live ones
 * run: captures=10 timeout=120
 *
 * What stdio writes by itself, dprintf, ftruncate, fallocate, sendfile, a mapping. Right: then all that was
 * saved before stands in its file, by the kernel's word.
 */
#include "helper.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#define LARGE (12 * MIB)

static int step;
static char name[32];

/* Its size in the kernel, which follows the drain. */
static unsigned long long drained(const char *path)
{
    struct statx status;
    check(syscall(SYS_statx, AT_FDCWD, path, 0, STATX_SIZE, &status) == 0);
    return status.stx_size;
}

static void begin(void)
{
    snprintf(name, sizeof name, "%d.ckpt", ++step);
    save(name, LARGE, (uint64_t)step);
    snprintf(name, sizeof name, "small%d.bin", step);
}

static void end(const char *what)
{
    char large[32];
    snprintf(large, sizeof large, "%d.ckpt", step);
    unsigned long long other = drained(name), size = drained(large);
    printf("%s: it has %llu bytes, what was saved before %llu\n", what, other, size);
}

int main(void)
{
    FILE *f;
    int fd, from;
    char *p;

    begin();
    check((f = fopen(name, "w")) != NULL && fputs("text", f) >= 0 && fclose(f) == 0);
    end("fclose");

    begin();
    check((f = fopen(name, "w")) != NULL && fputs("text", f) >= 0 && fflush(f) == 0);
    end("fflush");
    fclose(f);

    begin();
    check((f = fopen(name, "w")) != NULL && fputs("text", f) >= 0 && fseek(f, 1, SEEK_SET) == 0);
    end("fseek");
    fclose(f);

    begin();
    check((f = fopen(name, "w")) != NULL && setvbuf(f, NULL, _IONBF, 0) == 0 && fwrite("text", 1, 4, f) == 4);
    end("fwrite");
    fclose(f);

    begin();
    fd = create(name);
    check(dprintf(fd, "text") == 4);
    end("dprintf");
    close(fd);

    begin();
    fd = create(name);
    must(ftruncate(fd, 1000));
    end("ftruncate");
    close(fd);

    begin();
    fd = create(name);
    check(posix_fallocate(fd, 0, 1000) == 0);
    end("posix_fallocate");
    close(fd);

    from = must(open("/proc/self/exe", O_RDONLY));
    begin();
    fd = create(name);
    check(sendfile(fd, from, NULL, 5000) == 5000);
    end("sendfile");
    close(fd);

    begin();
    fd = must(open(name, O_CREAT | O_TRUNC | O_RDWR, 0644));
    must(ftruncate(fd, 5000));
    save("again.ckpt", LARGE, 99);
    p = mmap(NULL, 5000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(p != MAP_FAILED);
    p[0] = 'x';
    printf("mmap: %llu\n", drained("again.ckpt"));
    close(fd);
    return 0;
}
