/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_file_test.c -- pools in files: made, locked, cut, on a full disk, killed while written
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool_image.h"
#include "store/guard.h"

#define SIZE (16u << 20)
#define KILLS 25

static char directory[200]; /* below TMPDIR: in vm/poison on persistent memory */
static char path[256], said[256];

static int setup(void **state)
{
    snprintf(directory, sizeof(directory), "%s/pool_file_XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/pool", directory);
    snprintf(said, sizeof(said), "%s/said", directory);
    portus_log_setup(PORTUS_LOG_WARN, said, "portus: ");
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    unlink(said);
    return rmdir(directory);
}

static bool has_said(const char *text)
{
    char bytes[8192] = "";
    int fd = open(said, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes) - 1);

    if (fd >= 0)
        close(fd);
    assert_true(n >= 0);
    truncate(said, 0);
    return strstr(bytes, text) != NULL;
}

static void fresh(uint64_t size)
{
    unlink(path);
    assert_int_equal(pool_create(path, size, 0, false), 0);
}

static int write_file(const char *name, const char *text, uint64_t size)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(ftruncate(fd, size), 0);
    return close(fd);
}

static void test_create(void **state)
{
    struct pool_state look;
    struct stat status;
    struct pool *pool, *second;
    uint64_t number;

    fresh(SIZE);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, SIZE);
    assert_true(status.st_blocks * 512 >= SIZE); /* no hole that a full disk could refuse */
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(pool_open(&pool, path, true), 0);
    pool_look(pool, &look);
    assert_string_equal(look.kind, getenv("POOL_KIND") != NULL ? getenv("POOL_KIND") : "file");
    assert_int_equal(look.durable, getenv("POOL_KIND") != NULL);
    assert_int_equal(look.size, SIZE);
    assert_int_equal(image_commit(pool, 1, "/a", 1, 100000, &number), 0);
    assert_int_equal(pool_open(&second, path, true), -EBUSY);
    assert_true(has_said("another process"));
    assert_int_equal(pool_create(path, SIZE, 0, true), -EBUSY);
    assert_int_equal(pool_open(&second, path, false), 0); /* readers may */
    assert_int_equal(image_commit(second, 1, "/a", 1, 10, &number), -EROFS);
    assert_int_equal(contents_of(second).count, 1);
    pool_close(second);
    pool_close(pool);
    assert_int_equal(pool_create(path, SIZE, 0, false), -EEXIST);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(contents_of(pool).count, 1);
    pool_close(pool);
    assert_int_equal(pool_create(path, SIZE / 2, 0, true), 0);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(contents_of(pool).count, 0);
    pool_close(pool);
    assert_int_equal(pool_create(directory, SIZE, 0, false), -EISDIR);
    unlink(path);
    assert_int_equal(pool_create(path, 1 << 20, 0, false), -EINVAL);
    assert_int_equal(pool_open(&pool, path, true), -ENOENT);
    has_said("");
}

/* What is no pool is refused and left as it is. */
static void test_not_a_pool(void **state)
{
    struct pool *pool;
    struct stat status;
    char bytes[16] = "";
    int fd;

    write_file(path, "precious", 0);
    assert_int_equal(pool_open(&pool, path, true), -EUCLEAN);
    write_file(path, "precious", SIZE);
    assert_int_equal(pool_open(&pool, path, true), -EUCLEAN);
    assert_true(has_said("not a pool"));
    assert_int_equal(pool_create(path, SIZE, 0, false), -EEXIST);
    fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, bytes, 8), 8);
    close(fd);
    assert_string_equal(bytes, "precious");
    unlink(path);

    /* Where there is no room for it, nothing is left behind. */
    assert_int_not_equal(pool_create(path, 1ull << 60, 64, false), 0);
    assert_int_equal(stat(path, &status), -1);
    strcat(path, ".portus-new");
    assert_int_equal(stat(path, &status), -1);
    *strchr(path, '.') = '\0';
}

/* The file is cut under a pool that is open: calls fail, the process goes on. */
static void test_cut(void **state)
{
    struct pool_key key = key_of(1);
    struct contents contents = {0};
    struct pool_draft *draft;
    struct pool *pool;
    uint64_t number;
    char bytes[100] = "";

    fresh(SIZE);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(image_commit(pool, 1, "/a", 1, 100000, &number), 0);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(truncate(path, PORTUS_POOL_SECOND + PORTUS_POOL_PAGE), 0);
    assert_int_equal(pool_write(draft, 0, bytes, sizeof(bytes)), -EIO);
    assert_int_equal(pool_write(draft, 0, bytes, sizeof(bytes)), -EIO);
    pool_drop(draft);
    contents = contents_of(pool);
    assert_int_equal(contents.count, 0);
    assert_true(has_said("the file was cut"));
    pool_close(pool);
    assert_int_equal(pool_open(&pool, path, true), -EUCLEAN);
}

/* Bytes that a client offers and then takes away. */
static void test_source_gone(void **state)
{
    struct pool_attributes attributes = {.path = "/a", .size = 8192};
    struct pool_key key = key_of(1);
    struct pool_draft *draft;
    struct pool *pool;
    uint64_t number;
    char *bytes;
    int fd = memfd_create("source", MFD_CLOEXEC);

    fresh(SIZE);
    assert_int_equal(ftruncate(fd, 8192), 0);
    bytes = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(bytes != MAP_FAILED);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(pool_begin(pool, &key, &draft), 0);
    assert_int_equal(pool_write(draft, 0, bytes, 8192), 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(pool_write(draft, 0, bytes, 8192), -EFAULT);
    assert_int_equal(pool_commit(draft, &attributes, &number), -EFAULT);
    assert_int_equal(contents_of(pool).count, 0);
    pool_close(pool);
    munmap(bytes, 8192);
    close(fd);
}

/* A SIGBUS that is not the pool's goes where it went before. */
static void test_other_sigbus(void **state)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct rlimit none = {0, 0};
        volatile char *bytes;
        int fd = memfd_create("other", 0);

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGBUS, SIG_DFL);
        if (guard_install() != 0 || guard_install() != 0 || ftruncate(fd, 4096) != 0)
            _exit(1);
        bytes = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        if (ftruncate(fd, 0) != 0)
            _exit(2);
        _exit(bytes[0]);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* What the kernel cannot write back makes the pool read-only, once. */
static int fence_fails(void *self)
{
    return -EIO;
}

static void test_write_back_fails(void **state)
{
    struct map_backend backend;
    struct pool *pool;
    uint64_t number;

    fresh(SIZE);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(image_commit(pool, 1, "/a", 1, 5000, &number), 0);
    backend = *pool->map->backend;
    backend.fence = fence_fails;
    pool->map->backend = &backend;
    has_said("");
    assert_int_equal(image_commit(pool, 1, "/a", 2, 5000, &number), -EIO);
    assert_true(has_said("read-only from now on"));
    assert_int_equal(image_commit(pool, 1, "/a", 2, 5000, &number), -EIO);
    assert_false(has_said("read-only from now on"));
    assert_int_equal(pool_set_size(pool, 2 * SIZE), -EIO);
    assert_int_equal(contents_of(pool).count, 1); /* what is committed is still read */
    pool_close(pool);
    assert_int_equal(pool_open(&pool, path, true), 0);
    assert_int_equal(contents_of(pool).count, 1);
    pool_close(pool);
}

static void test_grow(void **state)
{
    struct contents before, after;
    struct pool *pool, *reader;
    struct pool_state look;
    struct stat status;
    uint64_t number;

    fresh(SIZE);
    assert_int_equal(setenv("PMEM2_FORCE_GRANULARITY", "BYTE", 1), 0);
    assert_int_equal(pool_open(&pool, path, true), 0);
    pool_look(pool, &look);
    assert_int_equal(look.durable, getenv("POOL_KIND") != NULL); /* whatever the environment says */
    assert_int_equal(image_commit(pool, 1, "/a", 1, 100000, &number), 0);
    before = contents_of(pool);
    assert_int_equal(pool_set_size(pool, 3 * SIZE), 0);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    for (int i = 0; i < 3; i++)
        assert_int_equal(image_commit(pool, 2 + i, "/b", i, MAX_FILE, &number), 0);
    before = contents_of(pool);
    pool_close(pool);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 3 * SIZE);
    assert_int_equal(pool_open(&pool, path, true), 0);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    check_free(pool, &after);
    /* The file becomes shorter as far as nothing is there; who reads it goes on. */
    assert_int_equal(pool_open(&reader, path, false), 0);
    assert_int_equal(pool_set_size(pool, PORTUS_POOL_PAGE), -EBUSY);
    assert_int_equal(pool_set_size(pool, SIZE), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, SIZE);
    after = contents_of(reader);
    assert_true(same_contents(&before, &after));
    pool_close(reader);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    pool_close(pool);
    assert_int_equal(pool_open(&pool, path, true), 0);
    after = contents_of(pool);
    assert_true(same_contents(&before, &after));
    check_free(pool, &after);
    pool_close(pool);
}

/* A reader while another process writes: what it knows is right, or gone. */
static void test_stale(void **state)
{
    struct pool *writer, *reader;
    struct pool_version version;
    struct contents contents;
    uint64_t number;
    char byte;

    fresh(SIZE);
    assert_int_equal(pool_open(&writer, path, true), 0);
    assert_int_equal(image_commit(writer, 1, "/a", 1, 5000, &number), 0);
    assert_int_equal(pool_open(&reader, path, false), 0);
    contents = contents_of(reader);
    assert_int_equal(contents.count, 1);
    version.number = number;
    version.place = pool_find(reader, number)->slot;
    assert_int_equal(pool_read(reader, &version, 0, &byte, 1), 0);
    assert_int_equal(pool_remove(writer, &version), 0);
    assert_int_equal(pool_read(reader, &version, 0, &byte, 1), -ESTALE);
    for (int i = 0; i < 60; i++) /* its units are another's now */
        assert_int_equal(image_commit(writer, 1, "/a", i, 200000, &number), 0);
    assert_int_equal(pool_verify(reader, &version), -ESTALE);
    contents = contents_of(reader);
    assert_int_equal(contents.count, 0);
    assert_int_equal(contents.error, 0);
    pool_close(reader);
    pool_close(writer);
}

/* ---- killed ---- */

/* Commits, renames and removes for ever; tells of each commit before and after it. */
static void write_on(int tell, uint64_t seed)
{
    struct pool *pool;
    uint64_t number, done[2];

    if (pool_open(&pool, path, true) != 0)
        _exit(3);
    for (uint64_t i = pool->newest + 1;; i++) {
        uint32_t file = below(&seed, 3);
        struct pool_key key = key_of(file);
        int error = image_commit(pool, file, "/k", i, 1 + i * 7919 % 30000, &number);

        done[0] = number;
        done[1] = i;
        if (error == 0 && write(tell, done, sizeof(done)) != sizeof(done))
            _exit(4);
        if (error == 0 && below(&seed, 4) == 0)
            error = pool_rename(pool, &key, "/r", POOL_SETTLED_AS_IT_WAS, &number);
        if (error == -ENOSPC || below(&seed, 8) == 0)
            error = pool_make_room(pool, SIZE, 1) >= 0 ? 0 : -EIO;
        if (error != 0 && error != -ENOSPC)
            _exit(5);
    }
}

static int check_written(const struct pool_version *version, void *argument)
{
    static char wanted[MAX_FILE], read[MAX_FILE];
    uint64_t seed = version->attributes.mtime, size = 1 + seed * 7919 % 30000;

    assert_int_equal(version->attributes.size, size);
    fill_bytes(wanted, size, seed | 1);
    assert_int_equal(pool_read(argument, version, 0, read, size), 0);
    assert_memory_equal(wanted, read, size);
    return 0;
}

static int find_last(const struct pool_version *version, void *argument)
{
    return version->attributes.mtime == *(int64_t *)argument;
}

static void test_killed(void **state)
{
    uint64_t seed = 90;

    fresh(SIZE);
    for (int i = 0; i < KILLS; i++) {
        uint64_t done[2], commits = 0;
        int64_t last = 0;
        struct contents contents;
        struct pool_state look;
        struct pool *pool;
        int pipes[2], status;
        pid_t child;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        if (child == 0) {
            close(pipes[0]);
            write_on(pipes[1], random64(&seed) | 1);
        }
        close(pipes[1]);
        /* Not before it has begun; then at any instant. */
        assert_int_equal(read(pipes[0], done, sizeof(done)), sizeof(done));
        last = done[1];
        usleep(below(&seed, 60000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        for (; read(pipes[0], done, sizeof(done)) == sizeof(done); commits++)
            last = done[1];
        close(pipes[0]);

        assert_int_equal(pool_open(&pool, path, true), 0);
        pool_look(pool, &look);
        assert_int_equal(look.repaired, 0);
        assert_int_equal(look.damaged, 0);
        contents = contents_of(pool);
        assert_int_equal(contents.error, 0);
        check_free(pool, &contents);
        assert_int_equal(pool_each(pool, check_written, pool), 0);
        /* The newest of all is never superseded: it cannot have gone. */
        assert_int_equal(pool_each(pool, find_last, &last), 1);
        pool_close(pool);
    }
}

/* ---- sysfs ---- */

static void test_persistence_domain(void **state)
{
    static const struct {
        const char *text;
        bool durable;
    } domains[] = {{"cpu_cache\n", true},
                   {"memory_controller\n", true},
                   {"\n", false},
                   {"unknown\n", false},
                   {"", false}};
    char region[256], device[300], file[340];

    snprintf(region, sizeof(region), "%s/region0", directory);
    snprintf(device, sizeof(device), "%s/dax0.0", region);
    snprintf(file, sizeof(file), "%s/persistence_domain", region);
    assert_int_equal(mkdir(region, 0700), 0);
    assert_int_equal(mkdir(device, 0700), 0);
    assert_false(map_region_durable(device)); /* no nd region: CXL, or set aside at boot */
    for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++) {
        write_file(file, domains[i].text, strlen(domains[i].text));
        assert_int_equal(map_region_durable(device), domains[i].durable);
    }
    assert_false(map_region_durable("/no/such/device"));
    unlink(file);
    rmdir(device);
    rmdir(region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),       cmocka_unit_test(test_not_a_pool),
        cmocka_unit_test(test_cut),          cmocka_unit_test(test_source_gone),
        cmocka_unit_test(test_other_sigbus), cmocka_unit_test(test_write_back_fails),
        cmocka_unit_test(test_grow),         cmocka_unit_test(test_stale),
        cmocka_unit_test(test_killed),       cmocka_unit_test(test_persistence_domain),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
