/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl_look_test.c -- the copy of a control segment that may contain anything, and
 * which of its files a path means
 */
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
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/look.c"
#include "ctl/target.c"

void complain(const char *format, ...)
{
}

static struct portus_control control;
static struct view view;

static int clean(void **state)
{
    memset(&control, 0, sizeof(control));
    memset(&view, 0xee, sizeof(view));
    return 0;
}

static void empty(void **state)
{
    look(&view, &control);
    assert_int_equal(view.sessions, 0);
    assert_int_equal(view.files, 0);
    assert_int_equal(view.uptime_ns, 0);
    assert_string_equal(view.release, "");
    assert_string_equal(view.last_error, "");
    assert_int_equal(view_left(&view), 0);
}

static void one_file(void **state)
{
    struct portus_session *session = &control.session[7];
    struct portus_file *file = &control.file[1023];

    session->state = PORTUS_SESSION_ACTIVE;
    session->pid = 42;
    session->head = 5 << 1 | PORTUS_STOPPED;
    session->tail = 3;
    session->captured = 1000;
    session->drained = 400;
    session->ring_bytes = 1 << 20;
    file->owner = 8;
    file->state = PORTUS_FILE_LIVE;
    file->captured = 900;
    file->drained = 300;
    file->since_ns = portus_now() - 5000000000;
    strcpy(file->path, "/ckpt/a.pt");
    look(&view, &control);

    assert_int_equal(view.sessions, 1);
    assert_int_equal(view.session[0].number, 7);
    assert_int_equal(view.session[0].head, 5);
    assert_int_equal(view.session[0].tail, 3);
    assert_int_equal(view_left(&view), 600);
    assert_int_equal(view.files, 1);
    assert_int_equal(view.file[0].slot, 1023);
    assert_int_equal(view.file[0].session, 7);
    assert_int_equal(view.file[0].pid, 42);
    assert_true(view.file[0].age_ns >= 5000000000 && view.file[0].age_ns < 60000000000);
    assert_string_equal(view.file[0].path, "/ckpt/a.pt");
    assert_true(view_live(&view.file[0]));
    file->state = PORTUS_FILE_DONE;
    look(&view, &control);
    assert_false(view_live(&view.file[0]));
}

static void lies(void **state)
{
    control.session[0].state = PORTUS_SESSION_ACTIVE;
    control.session[0].pid = UINT32_MAX;
    control.session[0].head = 2 << 1;
    control.session[0].tail = UINT64_MAX;
    control.session[0].captured = 10;
    control.session[0].drained = UINT64_MAX;
    control.session[0].ring_bytes = UINT64_MAX;
    control.session[1].state = 77; /* none of ours */
    control.file[0].owner = PORTUS_SESSIONS + 1;
    control.file[0].state = PORTUS_FILE_LIVE;
    control.file[1].owner = 1;
    control.file[1].state = PORTUS_FILE_DONE + 1;
    control.file[2].owner = 1;
    control.file[2].state = PORTUS_FILE_LIVE;
    control.file[2].since_ns = UINT64_MAX;
    memset(control.file[2].path, 'x', PORTUS_FILE_PATH); /* without an end */
    memset(control.release, 'r', sizeof(control.release));
    memset(control.last_error, 'e', sizeof(control.last_error));
    control.started_ns = UINT64_MAX;
    look(&view, &control);

    assert_int_equal(view.sessions, 1);
    assert_int_equal(view.session[0].pid, 0);
    assert_int_equal(view.session[0].tail, 2);
    assert_int_equal(view.session[0].drained, 10);
    assert_int_equal(view.session[0].ring_bytes, PORTUS_RING_MAX);
    assert_int_equal(view.files, 1);
    assert_int_equal(view.file[0].slot, 2);
    assert_int_equal(view.file[0].age_ns, 0);
    assert_int_equal(strlen(view.file[0].path), PORTUS_FILE_PATH + 3);
    assert_int_equal(strncmp(view.file[0].path, "...xxx", 6), 0);
    assert_int_equal(strlen(view.release), sizeof(control.release));
    assert_int_equal(strlen(view.last_error), PORTUS_ERROR_TEXT);
    assert_int_equal(view.uptime_ns, 0);
}

static void noise(void **state)
{
    srand(1);
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof(control); i++)
            ((uint8_t *)&control)[i] = (uint8_t)(rand() >> 8);
        for (unsigned i = 0; i < PORTUS_FILES; i++) {
            control.file[i].owner %= PORTUS_SESSIONS + 2;
            control.file[i].state %= PORTUS_FILE_DONE + 2;
        }
        for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
            control.session[i].state %= 4;
        look(&view, &control);
        assert_true(view.sessions > 0 && view.sessions <= PORTUS_SESSIONS);
        assert_true(view.files > 0 && view.files <= PORTUS_FILES);
        for (unsigned i = 0; i < view.files; i++) {
            assert_true(view.file[i].slot < PORTUS_FILES);
            assert_true(view.file[i].session < PORTUS_SESSIONS);
            assert_true(view.file[i].drained <= view.file[i].captured);
            assert_true(strnlen(view.file[i].path, sizeof(view.file[i].path)) <
                        sizeof(view.file[i].path));
        }
        for (unsigned i = 0; i < view.sessions; i++)
            assert_true(view.session[i].tail <= view.session[i].head &&
                        view.session[i].drained <= view.session[i].captured);
    }
}

static char root[] = "/tmp/portus-ctl-test-XXXXXX";

/* A path below root; good for two calls. */
static const char *at(const char *name)
{
    static char path[2][256];
    static unsigned next;

    next = !next;
    snprintf(path[next], sizeof(path[next]), "%s/%s", root, name);
    return path[next];
}

/* A live file of that path, as the shim describes it. */
static struct view_file live(const char *path)
{
    struct view_file file = {.state = PORTUS_FILE_LIVE, .since_ns = 1};
    struct stat status;
    char directory[256];

    assert_int_equal(stat(path, &status), 0);
    file.device = status.st_dev;
    file.inode = status.st_ino;
    snprintf(directory, sizeof(directory), "%s/..", path);
    *strrchr(directory, '/') = '\0';
    *strrchr(directory, '/') = '\0';
    assert_int_equal(stat(directory, &status), 0);
    file.directory[0] = status.st_ino;
    strcat(directory, "/..");
    assert_int_equal(stat(directory, &status), 0);
    file.directory[1] = status.st_ino;
    snprintf(file.path, sizeof(file.path), "%s", path);
    return file;
}

static void make_file(const char *name)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static int make_tree(void **state)
{
    assert_non_null(mkdtemp(root));
    assert_int_equal(mkdir(at("d"), 0700), 0);
    assert_int_equal(mkdir(at("d/e"), 0700), 0);
    assert_int_equal(mkdir(at("d/e/f"), 0700), 0);
    assert_int_equal(mkdir(at("dd"), 0700), 0);
    make_file("a");
    make_file("d/a");
    make_file("d/e/f/a");
    make_file("dd/a");
    assert_int_equal(symlink("a", at("link")), 0);
    assert_int_equal(symlink("d", at("dlink")), 0);
    assert_int_equal(link(at("a"), at("hard")), 0);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    return 0;
}

static int remove_tree(void **state)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static bool covers(const char *path, const struct view_file *file)
{
    struct target target;
    bool found;

    assert_int_equal(target_find(&target, path), 0);
    found = target_covers(&target, file);
    target_free(&target);
    return found;
}

static void files_by_inode(void **state)
{
    struct view_file file = live(at("a"));

    assert_true(covers(at("a"), &file));
    assert_true(covers(at("link"), &file));
    assert_true(covers(at("hard"), &file));
    assert_false(covers(at("d/a"), &file));
    snprintf(file.path, sizeof(file.path), "/renamed/since");
    assert_true(covers(at("a"), &file));
    file.device++;
    assert_false(covers(at("a"), &file));
}

static void directories(void **state)
{
    struct view_file near = live(at("d/a")), deep = live(at("d/e/f/a")), beside = live(at("dd/a"));

    assert_true(covers(at("d"), &near));
    assert_true(covers(at("dlink"), &near));
    assert_true(covers(at("d/"), &deep));  /* by its path: three levels */
    assert_true(covers(at("d/e"), &deep)); /* the directory above */
    assert_false(covers(at("d/e"), &near));
    assert_false(covers(at("d"), &beside)); /* "d" begins "dd/a" */
    assert_true(covers("/", &deep));
    snprintf(near.path, sizeof(near.path), "...cut/a");
    assert_true(covers(at("d"), &near)); /* by the directory's inode */
    near.device++;
    assert_false(covers(at("d"), &near));
}

static void not_a_target(void **state)
{
    struct target target;

    assert_int_equal(target_find(&target, at("nothing")), -ENOENT);
    assert_int_equal(target_find(&target, at("fifo")), -EINVAL);
}

static void marks(void **state)
{
    struct view_file file = live(at("a")), other;
    struct mark mark = mark_make(&file);

    assert_true(mark_is(&mark, &file));
    other = file;
    other.since_ns++; /* captured again since */
    assert_false(mark_is(&mark, &other));
    other = file;
    other.slot++;
    assert_false(mark_is(&mark, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty, clean), cmocka_unit_test_setup(one_file, clean),
        cmocka_unit_test_setup(lies, clean),  cmocka_unit_test_setup(noise, clean),
        cmocka_unit_test(files_by_inode),     cmocka_unit_test(directories),
        cmocka_unit_test(not_a_target),       cmocka_unit_test(marks),
    };

    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
