/* SPDX-License-Identifier: BSD-3-Clause */
/* source_test.c -- which memory can be read, by the fast way and by the one for any kernel */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/source.h"

#define PAGE 4096ul
#define PAGES 64ul
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static struct portus_source source;

static bool fast; /* this kernel can be asked */

static bool present(const void *data, size_t length)
{
    return portus_source_present(&source, data, length);
}

/* Both ways must agree. */
static bool readable(const void *data, size_t length)
{
    bool found = portus_source_readable(&source, data, length);

    assert_int_equal(found, portus_source_readable(NULL, data, length));
    return found;
}

static uint8_t *map(int fd, int flags)
{
    uint8_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void anonymous(void **state)
{
    uint8_t *memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);

    (void)state;
    assert_int_equal(madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
    assert_false(present(memory, PAGES * PAGE));
    assert_true(readable(memory + 5, PAGES * PAGE - 9)); /* never touched */
    assert_int_equal(madvise(memory, PAGES * PAGE, MADV_DONTNEED), 0);
    memset(memory, 1, PAGES * PAGE);
    assert_int_equal(present(memory, PAGES * PAGE), fast);
    assert_true(readable(memory, PAGES * PAGE));
    assert_int_equal(madvise(memory + 30 * PAGE, PAGE, MADV_DONTNEED), 0);
    assert_false(present(memory, PAGES * PAGE));
    assert_int_equal(present(memory + 31 * PAGE, 33 * PAGE), fast);
    assert_true(readable(memory + 7, 0));
    assert_int_equal(munmap(memory, PAGES * PAGE), 0);
}

static void holes(void **state)
{
    uint8_t *memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);

    (void)state;
    memset(memory, 1, PAGES * PAGE);
    assert_int_equal(mprotect(memory + 10 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(munmap(memory + 20 * PAGE, PAGE), 0);
    assert_true(readable(memory, 10 * PAGE));
    assert_false(readable(memory, 10 * PAGE + 1));
    assert_false(readable(memory + 11 * PAGE - 1, 2));
    assert_true(readable(memory + 11 * PAGE, 9 * PAGE));
    assert_false(readable(memory + 15 * PAGE, 10 * PAGE));
    assert_true(readable(memory + 21 * PAGE, 43 * PAGE));
    assert_false(readable(NULL, PAGE));
    assert_int_equal(munmap(memory, PAGES * PAGE), 0);
}

/* Pages that are guarded one by one: the mapping says nothing of them. */
static void guarded(void **state)
{
    uint8_t *memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);

    (void)state;
    memset(memory, 1, PAGES * PAGE);
    if (madvise(memory + 10 * PAGE, PAGE, MADV_GUARD_INSTALL) != 0)
        skip(); /* Linux 6.13 */
    assert_true(readable(memory, 10 * PAGE));
    assert_false(readable(memory, 11 * PAGE));
    assert_int_equal(munmap(memory, PAGES * PAGE), 0);
}

/* A file that is shorter than its mapping: a touch would raise SIGBUS. */
static void cut(void **state)
{
    char name[] = "/tmp/portus-source-XXXXXX";
    int fd = mkstemp(name);

    (void)state;
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(ftruncate(fd, (off_t)(PAGES * PAGE)), 0);
    for (int way = 0; way < 2; way++) {
        uint8_t *memory = map(fd, way == 0 ? MAP_SHARED : MAP_PRIVATE);
        assert_true(readable(memory, PAGES * PAGE));
        assert_int_equal(ftruncate(fd, (off_t)(10 * PAGE)), 0);
        assert_true(readable(memory, 10 * PAGE));
        assert_false(readable(memory + 9 * PAGE, 2 * PAGE));
        assert_int_equal(ftruncate(fd, (off_t)(PAGES * PAGE)), 0);
        assert_int_equal(munmap(memory, PAGES * PAGE), 0);
    }
    close(fd);
}

/* Memory of a device, as the kernel maps some into every process. */
static void special(void **state)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    char line[512];

    (void)state;
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        if (strstr(line, "[vvar") != NULL && sscanf(line, "%lx-%lx", &start, &end) == 2)
            assert_false(present((void *)start, end - start));
    fclose(maps);
}

static int open_source(void **state)
{
    struct utsname name;
    int major = 0, minor = 0;

    (void)state;
    portus_source_open(&source);
    uname(&name);
    sscanf(name.release, "%d.%d", &major, &minor);
    fast = source.maps >= 0 && source.pages >= 0 && (major > 6 || (major == 6 && minor >= 11));
    return 0;
}

static int close_source(void **state)
{
    (void)state;
    portus_source_close(&source);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(anonymous), cmocka_unit_test(holes),
                                       cmocka_unit_test(guarded), cmocka_unit_test(cut),
                                       cmocka_unit_test(special)};

    return cmocka_run_group_tests(tests, open_source, close_source);
}
