/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_test.c -- one line each, cut, cleaned; a file that survives its descriptor
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"

static char directory[] = "/tmp/portus-log-test-XXXXXX";
static char path[64], other[64];
static char text[65536];

static const char *read_file(const char *name)
{
    int fd = open(name, O_RDONLY);
    ssize_t length;

    assert_true(fd >= 0);
    length = read(fd, text, sizeof(text) - 1);
    assert_true(length >= 0);
    text[length] = '\0';
    close(fd);
    return text;
}

static int setup(void **state)
{
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/log", directory);
    snprintf(other, sizeof(other), "%s/other", directory);
    return 0;
}

static int teardown(void **state)
{
    return rmdir(directory);
}

static int clean(void **state)
{
    portus_log_setup(PORTUS_LOG_WARN, NULL, "portus: ");
    portus_log_json(false);
    unlink(path);
    unlink(other);
    return 0;
}

static int saved_stderr = -1;

/* Puts `other` in the place of standard error until end_stderr(), which returns what was written.
 */
static void begin_stderr(void)
{
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    saved_stderr = dup(2);
    assert_int_equal(dup2(fd, 2), 2);
    close(fd);
}

static const char *end_stderr(void)
{
    dup2(saved_stderr, 2);
    close(saved_stderr);
    return read_file(other);
}

/* The descriptor that is open on the log file: the highest one, or -1. */
static int log_fd(void)
{
    struct stat wanted, found;
    int last = -1;

    assert_int_equal(stat(path, &wanted), 0);
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino &&
            found.st_dev == wanted.st_dev)
            last = fd;
    return last;
}

/* Has to be the first test: nothing is set up. */
static void test_before_setup(void **state)
{
    assert_true(portus_log_enabled(PORTUS_LOG_ERROR));
    assert_true(portus_log_enabled(PORTUS_LOG_WARN));
    assert_false(portus_log_enabled(PORTUS_LOG_INFO));
    begin_stderr();
    log_warn("disk %s: %d", "full", 7);
    log_info("not this");
    assert_string_equal(end_stderr(), "portus: disk full: 7\n");
    unlink(other);
}

static void test_levels(void **state)
{
    portus_log_setup(PORTUS_LOG_INFO, path, "x: ");
    assert_true(portus_log_enabled(PORTUS_LOG_INFO));
    assert_false(portus_log_enabled(PORTUS_LOG_DEBUG));
    log_error("e");
    log_warn("w");
    log_info("i");
    log_debug("d");
    assert_string_equal(read_file(path), "x: e\nx: w\nx: i\n");
    portus_log_setup(PORTUS_LOG_ERROR, path, "y: ");
    log_error("e");
    log_warn("w");
    assert_string_equal(read_file(path), "x: e\nx: w\nx: i\ny: e\n");
}

static void test_cut(void **state)
{
    char word[3000];

    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("%.997s", word);
    read_file(path);
    assert_int_equal(strlen(text), 1001);
    assert_int_equal(text[999], 'a');
    unlink(path);
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("%s", word);
    read_file(path);
    assert_int_equal(strlen(text), 1001);
    assert_string_equal(text + 996, "a...\n");
    unlink(path);
    portus_log_setup(PORTUS_LOG_WARN, path, word); /* a silly prefix leaves room */
    log_warn("%s", "here");
    assert_non_null(strstr(read_file(path), "here\n"));
}

static void test_one_line(void **state)
{
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("a\nb\tc\033[31md\x7f \xc3\xa9");
    assert_string_equal(read_file(path), "p: a?b?c?[31md? \xc3\xa9\n");
}

static void test_json(void **state)
{
    char name[] = "a\"b\\\n\x1b\xff\xc3\xa9\xf0\x9f\x98\x80";
    char end[] = "\"a\\\"b\\\\\\n\\u001b\\ufffd\\u00e9\\ud83d\\ude00: gone\"}\n";
    char begin[64], many[3000];
    const char *line;
    double time;
    int pid;

    portus_log_setup(PORTUS_LOG_WARN, path, "portus-agent: ");
    portus_log_json(true);
    portus_log(PORTUS_LOG_WARN, "%s: gone", name);
    line = read_file(path);
    assert_int_equal(sscanf(line, "{\"time\":%lf,\"level\":\"warn\",\"program\":\"portus-agent\",\"pid\":%d,\"message\":%10s",
                            &time, &pid, begin), 3);
    assert_true(time > 1.7e9 && pid == getpid());
    assert_string_equal(line + strlen(line) - strlen(end), end);
    memset(many, '\x01', sizeof(many));
    many[sizeof(many) - 1] = '\0';
    portus_log(PORTUS_LOG_WARN, "%s", many);
    line = strchr(read_file(path), '\n') + 1;
    assert_string_equal(line + strlen(line) - 12, "\\u0001...\"}\n");
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_errno_kept(void **state)
{
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    errno = EDOM;
    log_warn("%m");
    assert_int_equal(errno, EDOM);
    assert_non_null(strstr(read_file(path), strerror(EDOM)));
    begin_stderr();
    errno = ERANGE;
    portus_log_setup(PORTUS_LOG_WARN, "/nowhere/at/all", "p: ");
    assert_int_equal(errno, ERANGE);
    log_warn("here");
    assert_int_equal(errno, ERANGE);
    assert_string_equal(end_stderr(), "p: here\n"); /* the file cannot be opened */
}

static void test_file_flags(void **state)
{
    struct stat status;
    int fd;

    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    assert_int_equal(access(path, F_OK), -1); /* opened at the first line */
    log_warn("1");
    fd = log_fd();
    assert_true(fd >= 512);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_APPEND);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    log_warn("2");
    assert_int_equal(log_fd(), fd); /* not opened again */
    portus_log_setup(PORTUS_LOG_WARN, NULL, "p: ");
    assert_int_equal(log_fd(), -1); /* closed */
}

static void test_descriptor_closed(void **state)
{
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("1");
    assert_int_equal(close(log_fd()), 0);
    log_warn("2");
    assert_string_equal(read_file(path), "p: 1\np: 2\n");
}

static void test_descriptor_reused(void **state)
{
    int fd, theirs;

    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("1");
    fd = log_fd();
    theirs = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(dup2(theirs, fd), fd);
    close(theirs);
    log_warn("2");
    log_warn("3");
    assert_string_equal(read_file(path), "p: 1\np: 2\np: 3\n");
    assert_string_equal(read_file(other), "");
    assert_true(log_fd() != fd);
    portus_log_setup(PORTUS_LOG_WARN, NULL, "p: ");
    assert_int_equal(fcntl(fd, F_GETFD), 0); /* theirs is still open */
    close(fd);
}

static void test_low_limit(void **state)
{
    struct rlimit before, low;

    getrlimit(RLIMIT_NOFILE, &before);
    low = before;
    low.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    log_warn("1");
    log_warn("2");
    setrlimit(RLIMIT_NOFILE, &before);
    assert_true(log_fd() > 2 && log_fd() < 100);
    assert_string_equal(read_file(path), "p: 1\np: 2\n");
}

static void test_relative_path(void **state)
{
    char before[4096];

    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(directory), 0);
    portus_log_setup(PORTUS_LOG_WARN, "log", "p: ");
    assert_int_equal(chdir("/"), 0);
    log_warn("1");
    assert_int_equal(chdir(before), 0);
    assert_string_equal(read_file(path), "p: 1\n");
}

/* Standard error is a pipe that nobody reads: the line is lost, the program lives. */
static void test_broken_pipe(void **state)
{
    int ends[2], status;
    pid_t child = fork();

    if (child == 0) {
        sigset_t pending;

        signal(SIGPIPE, SIG_DFL);
        if (pipe(ends) != 0 || dup2(ends[1], 2) != 2)
            _exit(1);
        close(ends[0]);
        close(ends[1]);
        log_warn("lost");
        sigpending(&pending);
        _exit(sigismember(&pending, SIGPIPE) ? 2 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Standard error is closed, and its number becomes a file of the program. */
static void test_no_stderr(void **state)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        close(2);
        portus_log_setup(PORTUS_LOG_WARN, NULL, "p: ");
        if (open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600) != 2)
            _exit(1);
        log_warn("not into the file");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(read_file(other), "");
}

#define THREADS 4
#define LINES 200

static void *many_lines(void *unused)
{
    for (int i = 0; i < LINES; i++) {
        log_warn("%0100d", i);
        if (i % 10 == 0)
            close(512); /* a rude program */
    }
    return NULL;
}

static int count_lines(const char *name)
{
    FILE *file = fopen(name, "r");
    char line[256];
    int lines = 0;

    assert_non_null(file);
    for (; fgets(line, sizeof(line), file) != NULL; lines++)
        assert_int_equal(strlen(line), 3 + 100 + 1);
    fclose(file);
    return lines;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    int lines;

    portus_log_setup(PORTUS_LOG_WARN, path, "p: ");
    begin_stderr();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_lines, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_stderr();
    /* A line whose descriptor is closed under it goes to standard error; none is lost. */
    lines = count_lines(path);
    assert_true(lines > THREADS * LINES / 2);
    assert_int_equal(lines + count_lines(other), THREADS * LINES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(test_before_setup),
        TEST(test_levels),
        TEST(test_cut),
        TEST(test_one_line),
        TEST(test_json), TEST(test_errno_kept),
        TEST(test_file_flags),
        TEST(test_descriptor_closed),
        TEST(test_descriptor_reused),
        TEST(test_low_limit),
        TEST(test_relative_path),
        TEST(test_broken_pipe),
        TEST(test_no_stderr),
        TEST(test_threads),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
