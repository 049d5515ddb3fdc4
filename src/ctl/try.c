// SPDX-License-Identifier: BSD-3-Clause
/*
 * try.c -- portusctl try: a command plainly and captured, what differs, what it gains
 *
 * The plain run says what is right. A second one, while which contents of files are noted,
 * says what differs by itself. A third, with the shim that changes nothing (PORTUS=report),
 * says what a save costs plainly. All run in the same directory, one after another, as
 * programs print paths and put them into files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/install.h"
#include "ctl/try.h"

#define KILLS 8
#define LIMIT_LEAST_NS 60000000000ull

/* A fresh directory to run in, or an errno, negative. */
static int fresh(const struct trial *trial, const char *directory)
{
    int error = tree_remove(directory);

    if (error == 0 && mkdir(directory, 0777) < 0)
        error = -errno;
    if (error == 0 && trial->from != NULL)
        error = tree_copy(trial->from, directory);
    if (error != 0)
        complain("try: %s: %s", directory, strerror(-error));
    return error;
}

struct try_run trial_plan(struct trial *trial, enum try_way way, const char *name)
{
    return (struct try_run){.way = way,
                            .directory = trial->directory,
                            .name = name,
                            .argv = trial->argv,
                            .work = trial->work,
                            .shim = trial->shim,
                            .limit_ns = trial->limit_ns,
                            .file_size = RLIM_INFINITY};
}

static int read_output(struct tree *output, const struct try_run *run)
{
    static const char *const names[][2] = {{"err", "standard error"}, {"out", "standard output"}};
    char path[PATH_MAX];
    int error = 0;

    *output = (struct tree){calloc(2, sizeof(struct tree_entry)), 0};
    for (unsigned i = 0; i < 2 && error == 0 && output->entry != NULL; i++) {
        struct tree_entry *entry = &output->entry[output->count++];

        entry->path = strdup(names[i][1]);
        error =
            entry->path == NULL ? -ENOMEM : tree_read_file(entry, try_file(path, run, names[i][0]));
    }
    return output->entry != NULL ? error : -ENOMEM;
}

int trial_run(struct trial *trial, struct try_run *run, struct outcome *outcome)
{
    int error;

    *outcome = (struct outcome){0};
    if (trial->progress)
        fprintf(stderr, "\r%s ...\033[K", run->name);
    error = try_run(run);
    if (error == 0)
        error = tree_read(&outcome->files, run->directory);
    if (error == 0)
        error = read_output(&outcome->output, run);
    if (trial->progress)
        fputs("\r\033[K", stderr);
    if (error != 0)
        complain("try: %s: %s", run->directory, strerror(-error));
    outcome->status = run->status;
    outcome->late = run->late;
    outcome->left = run->left;
    outcome->ns = run->ns;
    outcome->agent_ns = run->agent_ns;
    return try_interrupted ? -EINTR : error;
}

int trial_run_fresh(struct trial *trial, struct try_run *run, struct outcome *outcome)
{
    int error = fresh(trial, run->directory);

    return error != 0 ? error : trial_run(trial, run, outcome);
}

void outcome_free(struct outcome *outcome)
{
    tree_free(&outcome->files);
    tree_free(&outcome->output);
}

static const char *how(int status, char text[40])
{
    if (WIFSIGNALED(status))
        snprintf(text, 40, "signal %d", WTERMSIG(status));
    else
        snprintf(text, 40, "exit status %d", WEXITSTATUS(status));
    return text;
}

void outcome_compare(struct differences *out, const struct outcome *plain,
                     const struct outcome *other, bool output)
{
    char one[40], two[40];

    if (other->late && !plain->late)
        differences_add(out, "end", "status", "has not ended in time, plainly after %.1f s",
                        (double)plain->ns / 1e9);
    else if (plain->status != other->status)
        differences_add(out, "end", "status", "is %s, plainly %s", how(other->status, one),
                        how(plain->status, two));
    if (output)
        tree_compare(out, &plain->output, &other->output);
    tree_compare(out, &plain->files, &other->files);
}

/* A command that fails as its arguments are not there is one that was named by a relative path. */
static void hint(const struct trial *trial)
{
    if (!WIFEXITED(trial->plain.status) || WEXITSTATUS(trial->plain.status) == 0)
        return;
    for (char **word = trial->argv; *word != NULL; word++)
        if ((*word)[0] != '/' && (*word)[0] != '-' && access(*word, F_OK) == 0 &&
            (word != trial->argv || strchr(*word, '/') != NULL)) {
            complain("try: %s fails plainly; it runs in a directory of its own: give %s by its "
                     "whole path, or use --from .",
                     trial->argv[0], *word);
            return;
        }
    complain("try: %s fails plainly: exit status %d", trial->argv[0],
             WEXITSTATUS(trial->plain.status));
}

static void show_error(const struct try_run *run)
{
    char path[PATH_MAX], line[256];
    FILE *file = fopen(try_file(path, run, "err"), "re");
    unsigned lines = 0;

    while (file != NULL && lines++ < 20 && fgets(line, sizeof(line), file) != NULL)
        fprintf(stderr, "  %s", line);
    if (file != NULL)
        fclose(file);
}

/* The three runs of before. */
static int learn(struct trial *trial)
{
    struct try_run run = trial_plan(trial, TRY_PLAIN, "plain");
    struct outcome again;
    char path[2 * PATH_MAX];
    int error = trial_run_fresh(trial, &run, &trial->plain);

    if (error != 0)
        return error;
    if (run.late || (WIFEXITED(run.status) && WEXITSTATUS(run.status) >= 126)) {
        complain("try: %s: %s", trial->argv[0],
                 run.late ? "it has not ended in time: see --timeout" : "it cannot be run plainly");
        show_error(&run);
        return -ECANCELED;
    }
    hint(trial);
    /* Enough for a run that waits for its agent, and for one that hangs to be found out. */
    if (trial->limit_ns == UINT64_MAX)
        trial->limit_ns = 10 * run.ns + LIMIT_LEAST_NS;

    run = trial_plan(trial, TRY_PLAIN, "again");
    run.record = &trial->known;
    error = trial_run_fresh(trial, &run, &again);
    if (error != 0)
        return error;
    outcome_compare(&trial->own, &trial->plain, &again, true);
    for (size_t i = 0; i < again.files.count; i++)
        if (S_ISREG(again.files.entry[i].status.st_mode)) {
            snprintf(path, sizeof(path), "%s/%s", trial->directory, again.files.entry[i].path);
            known_add(&trial->known, path, again.files.entry[i].path);
        }
    outcome_free(&again);

    run = trial_plan(trial, TRY_REPORT, "report");
    error = trial_run_fresh(trial, &run, &again);
    if (error == 0) {
        outcome_free(&again);
        error = saves_read(&trial->plain_saves, try_file(path, &run, "trace"), trial->directory);
    }
    return error;
}

static int capture(struct trial *trial)
{
    struct try_run run = trial_plan(trial, TRY_SHIM, "portus");
    struct differences own = {0}, all = {0};
    char path[PATH_MAX], kept[PATH_MAX + 16];
    int error = trial_run_fresh(trial, &run, &trial->shimmed);

    if (error == 0)
        error = saves_read(&trial->saves, try_file(path, &run, "trace"), trial->directory);
    if (error != 0)
        return error;
    outcome_compare(&all, &trial->plain, &trial->shimmed, true);
    differences_split(&all, &trial->own, &own);
    differences_free(&own);
    differences_append(&trial->found, &all);
    differences_free(&all);
    if (trial->found.count > 0) { /* for who wants to look */
        snprintf(kept, sizeof(kept), "%s/portus", trial->work);
        if (rename(trial->directory, kept) < 0)
            complain("try: %s: %s", kept, strerror(errno));
    }
    return 0;
}

static int prepare(struct trial *trial, const struct options *options)
{
    static char from[PATH_MAX], beside[PATH_MAX + 4];
    const char *where = options->to != NULL ? options->to : ".";
    char top[PATH_MAX];
    struct stat status;

    if (!install_shim(trial->shim)) {
        complain("try: libportus_shim.so is neither beside portusctl nor in ../lib/portus: run "
                 "make, or install Portus again");
        return -ENOENT;
    }
    if (options->from != NULL) {
        errno = ENOTDIR;
        if (realpath(options->from, from) == NULL || stat(from, &status) < 0 ||
            !S_ISDIR(status.st_mode)) {
            complain("try: --from %s: %s", options->from, strerror(errno));
            return -errno;
        }
        trial->from = from;
        if (options->to == NULL) { /* beside it */
            snprintf(beside, sizeof(beside), "%s/..", from);
            where = beside;
        }
    }
    if (realpath(where, top) == NULL) {
        complain("try: %s: %s", where, strerror(errno));
        return -errno;
    }
    if (options->from != NULL && strncmp(top, from, strlen(from)) == 0 &&
        (top[strlen(from)] == '/' || top[strlen(from)] == '\0')) {
        complain("try: %s is in the directory that is to be copied: name another with --to", top);
        return -EINVAL;
    }
    if (snprintf(trial->work, sizeof(trial->work), "%s/portus-try-XXXXXX", top) >= PATH_MAX - 100 ||
        mkdtemp(trial->work) == NULL) {
        complain("try: no new directory in %s: %s", top, strerror(errno));
        return -errno;
    }
    snprintf(trial->directory, sizeof(trial->directory), "%.*s/run", PATH_MAX - 10, trial->work);
    return 0;
}

int try_main(int argc, char **argv)
{
    static struct trial trial;
    struct options options;
    int operand = options_parse(&options, argc, argv,
                                OPTION_JSON | OPTION_FROM | OPTION_TO | OPTION_KILLS |
                                    OPTION_TIMEOUT | OPTION_COMMAND);
    int error, status = CTL_USAGE;

    if (operand < 0)
        return CTL_USAGE;
    if (operand == argc) {
        complain("try: which command? see portusctl help try");
        return CTL_USAGE;
    }
    trial.argv = argv + operand;
    trial.limit_ns = options.timeout_ns;
    trial.kills = options.kills != UINT64_MAX ? options.kills : KILLS;
    trial.progress = isatty(STDERR_FILENO);
    if (prepare(&trial, &options) != 0)
        return CTL_USAGE;
    error = try_begin();
    if (error == 0)
        error = learn(&trial);
    if (error == 0)
        error = capture(&trial);
    if (error == 0)
        error = trial_kill(&trial);
    if (error == 0)
        error = trial_fill(&trial);
    if (error == 0)
        status = trial_report(&trial, options.json);
    else if (try_interrupted)
        complain("try: interrupted");
    if (status == CTL_FAILED)
        complain("try: what came out is in %s", trial.work);
    else if (tree_remove(trial.work) != 0)
        complain("try: %s cannot be removed", trial.work);
    return status;
}
