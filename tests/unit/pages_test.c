/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages_test.c -- mappings as an older kernel tells them, by text, against those of a newer one
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/pages.h"

#define COUNT 600
#define DEPTH 12

static struct portus_source good, text; /* one knows no ioctl */
static char *mapping[COUNT];

/* Files whose lines are longer than what is read at once, and some that are not, apart from each other. */
static int setup(void **state)
{
    char name[256];
    int fd;

    good.maps = open("/proc/self/maps", O_RDONLY);
    text.maps = open("/dev/null", O_RDONLY);
    good.pages = text.pages = -1;
    memset(name, 'd', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name + 250, 6, "%d", i);
        assert_int_equal(mkdir(name, 0700), 0);
        assert_int_equal(chdir(name), 0);
        fd = open("file", O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
        for (int k = i * COUNT / DEPTH; k < (i + 1) * COUNT / DEPTH; k++) {
            char *room = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int protection = k % 3 ? PROT_READ : PROT_READ | PROT_WRITE;
            int flags = (k % 2 ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED;
            mapping[k] = mmap(room + 4096, 4096, protection, flags, fd, 0);
            assert_ptr_equal(mapping[k], room + 4096);
        }
        close(fd);
    }
    return 0;
}

static int teardown(void **state)
{
    char name[256];

    memset(name, 'd', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (int i = DEPTH; i-- > 0;) {
        snprintf(name + 250, 6, "%d", i);
        unlink("file");
        if (chdir("..") != 0 || rmdir(name) != 0)
            return 1;
    }
    return 0;
}

static void same(const struct portus_mapping *a, const struct portus_mapping *b)
{
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->inode, b->inode);
}

static void both_tell_the_same(void **state)
{
    struct portus_walk newer, older;
    struct portus_mapping a, b;
    unsigned files = 0;

    if (!portus_mapping_at(&good, (uintptr_t)mapping[0], &a))
        skip();
    portus_walk_begin(&newer, &good, 0);
    portus_walk_begin(&older, &text, 0);
    while (portus_walk_next(&newer, &a)) {
        do
            assert_true(portus_walk_next(&older, &b));
        while (b.inode == 0);
        same(&a, &b);
        files++;
    }
    while (portus_walk_next(&older, &b))
        assert_int_equal(b.inode, 0);
    portus_walk_end(&newer);
    portus_walk_end(&older);
    assert_true(files >= COUNT);
}

static void each_is_found(void **state)
{
    struct portus_mapping found;

    for (int i = 0; i < COUNT; i += 7)
        for (int which = 0; which < 2; which++) {
            assert_true(portus_mapping_at(which ? &text : &good, (uintptr_t)mapping[i], &found));
            assert_int_equal(found.start, mapping[i]);
            assert_int_equal(found.end, mapping[i] + 4096);
            assert_int_equal(!!(found.flags & PORTUS_MAPPING_SHARED), i % 2);
            assert_int_equal(!!(found.flags & PORTUS_MAPPING_WRITE), i % 3 == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_tell_the_same),
        cmocka_unit_test(each_is_found),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
