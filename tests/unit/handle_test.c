/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle_test.c -- what a file is does not depend on what is short
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/listing.h"

/* A name of a file tells nothing by itself: its directory is opened. */
static void test_no_descriptor(void **state)
{
    char directory[] = "/tmp/portus-handle-XXXXXX", path[sizeof(directory) + 2];
    struct listing_entry before, now;
    struct rlimit limit, none;
    int fd, name, error;

    assert_non_null(mkdtemp(directory));
    strcat(strcpy(path, directory), "/a");
    fd = open(path, O_RDWR | O_CREAT, 0600);
    name = open(path, O_PATH);
    assert_true(fd >= 0 && name >= 0);
    assert_int_equal(listing_handle(fd, &before), 0);
    assert_int_equal(listing_handle(name, &now), 0);
    assert_memory_equal(&before, &now, sizeof(now));

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    error = listing_handle(name, &now);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (error == 0) /* a kernel before 6.9 */
        assert_memory_equal(&before, &now, sizeof(now));
    else
        assert_int_equal(error, -EMFILE);

    /* Its directory is gone, too. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(listing_handle(name, &now), 0);
    close(name);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_descriptor)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
