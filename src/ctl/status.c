// SPDX-License-Identifier: BSD-3-Clause
/*
 * status.c -- portusctl status: what the agent does just now
 *
 * One look, printed for a person or as JSON. Not a monitor: top.c is one. Nothing is asked of the agent, which may be busy or stopped:
 * all is read from the memory that it shares.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/look.h"
#include "ctl/text.h"

static struct view view;

#define NAME_SIZE 32

/* The name of a process as the kernel has it, or "" if it is gone. */
static void process_name(char out[NAME_SIZE], uint32_t pid)
{
    char path[64];
    ssize_t length = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, out, NAME_SIZE - 1);
        close(fd);
    }
    if (length < 0)
        length = 0;
    out[length] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static const char *agent_state(uint32_t passive)
{
    return passive == PORTUS_CAPTURING      ? "capturing"
           : passive == PORTUS_PASSIVE_OFF  ? "off"
           : passive == PORTUS_PASSIVE_TERM ? "ending"
                                            : "unknown";
}

static const char *file_state(const struct view_file *file)
{
    if (file->error != 0)
        return "failed";
    switch (file->state) {
    case PORTUS_FILE_CLAIMED:
        return "new";
    case PORTUS_FILE_LIVE:
        return file->closed ? "draining" : "open";
    case PORTUS_FILE_TRIMMED:
        return "finishing";
    default:
        return "done";
    }
}

/* Live files, and those that are done but failed. */
static bool file_shown(const struct view_file *file)
{
    return view_live(file) || file->error != 0;
}

static void print_sessions(void)
{
    char name[NAME_SIZE], safe[TEXT_ROOM(NAME_SIZE)], use[TEXT_BYTES], size[TEXT_BYTES];

    if (view.sessions == 0)
        return;
    printf("\n%10s  %-15s  %10s  %10s\n", "PID", "PROGRAM", "IN RING", "RING");
    for (unsigned i = 0; i < view.sessions; i++) {
        const struct view_session *session = &view.session[i];

        process_name(name, session->pid);
        printf("%10" PRIu32 "  %-15s  %10s  %10s%s\n", session->pid,
               name[0] != '\0' ? text_safe(safe, sizeof(safe), name) : "-",
               text_bytes(use, session->captured - session->drained),
               text_bytes(size, session->ring_bytes),
               session->state == PORTUS_SESSION_DYING ? "  (ended; its files are completed)" : "");
    }
}

static void print_files(void)
{
    char size[TEXT_BYTES], left[TEXT_BYTES], age[TEXT_SPAN], path[TEXT_ROOM(PORTUS_FILE_PATH + 4)];
    bool first = true;

    for (unsigned i = 0; i < view.files; i++) {
        const struct view_file *file = &view.file[i];

        if (!file_shown(file))
            continue;
        if (first)
            printf("\n%10s  %-9s  %10s  %7s  %10s  %s\n", "AGE", "STATE", "SIZE", "DRAINED", "LEFT",
                   "FILE");
        first = false;
        printf("%10s  %-9s  %10s  %5.0f %%  %10s  %s\n", text_span(age, file->age_ns),
               file_state(file), text_bytes(size, file->size),
               file->captured != 0 ? 100.0 * (double)file->drained / (double)file->captured : 100.0,
               text_bytes(left, file->captured - file->drained),
               text_safe(path, sizeof(path), file->path));
        if (file->error != 0)
            printf("%10s  %s: the program is told at its next call that relies on the file\n", "",
                   text_errno(file->error));
    }
}

static void print_all(void)
{
    char one[TEXT_BYTES], two[TEXT_BYTES], span[TEXT_SPAN], text[TEXT_ROOM(PORTUS_ERROR_TEXT)];

    printf("agent    %s, up %s, %s (keeper %" PRIu32 ", worker %" PRIu32 ")\n",
           agent_state(view.passive), text_span(span, view.uptime_ns),
           text_safe(text, sizeof(text), view.release), view.keeper, view.worker);
    if (view.restarts != 0)
        printf("         its worker was replaced %" PRIu32 " %s\n", view.restarts,
               view.restarts == 1 ? "time" : "times");
    printf("left     %s to drain", text_bytes(one, view_left(&view)));
    if (view.undrained_limit != 0 && view.undrained_limit != UINT64_MAX)
        printf(", of at most %s", text_bytes(two, view.undrained_limit));
    printf("\ndrained  %s in %" PRIu64 " %s", text_bytes(one, view.drained_bytes),
           view.drained_files, view.drained_files == 1 ? "file" : "files");
    if (view.drain_rate != 0)
        printf(", lately %s/s", text_bytes(two, view.drain_rate));
    putchar('\n');
    if (view.errors != 0)
        printf("errors   %" PRIu32 ", the last: %s\n", view.errors,
               text_safe(text, sizeof(text), view.last_error));
    print_sessions();
    print_files();
}

static void write_session(struct json *json, const struct view_session *session)
{
    char name[NAME_SIZE];

    process_name(name, session->pid);
    json_open_object(json, NULL);
    json_number(json, "number", session->number);
    json_number(json, "pid", session->pid);
    json_text(json, "program", name[0] != '\0' ? name : NULL);
    json_bool(json, "ended", session->state == PORTUS_SESSION_DYING);
    json_number(json, "captured", session->captured);
    json_number(json, "drained", session->drained);
    json_number(json, "used", session->captured - session->drained);
    json_number(json, "ring", session->ring_bytes);
    json_number(json, "records", session->head - session->tail);
    json_close(json);
}

static void write_file(struct json *json, const struct view_file *file)
{
    json_open_object(json, NULL);
    json_text(json, "path", file->path);
    json_number(json, "pid", file->pid);
    json_text(json, "state", file_state(file));
    json_bool(json, "closed", file->closed);
    json_bool(json, "lease", !file->leaseless);
    json_seconds(json, "age", file->age_ns);
    json_number(json, "size", file->size);
    json_number(json, "captured", file->captured);
    json_number(json, "drained", file->drained);
    json_text(json, "error", file->error != 0 ? text_errno(file->error) : NULL);
    json_number(json, "device", file->device);
    json_number(json, "inode", file->inode);
    json_close(json);
}

static void write_all(bool agent)
{
    struct json json;

    json_begin(&json, stdout);
    if (!agent) {
        json_text(&json, "agent", NULL);
    } else {
        json_open_object(&json, "agent");
        json_text(&json, "release", view.release);
        json_text(&json, "state", agent_state(view.passive));
        json_number(&json, "keeper", view.keeper);
        json_number(&json, "worker", view.worker);
        json_number(&json, "restarts", view.restarts);
        json_seconds(&json, "uptime", view.uptime_ns);
        json_number(&json, "drain_rate", view.drain_rate);
        json_number(&json, "drained_files", view.drained_files);
        json_number(&json, "drained_bytes", view.drained_bytes);
        json_number(&json, "left", view_left(&view));
        json_number(&json, "left_limit", view.undrained_limit);
        json_number(&json, "errors", view.errors);
        json_text(&json, "last_error", view.errors != 0 ? view.last_error : NULL);
        json_close(&json);
    }
    json_open_array(&json, "sessions");
    for (unsigned i = 0; i < view.sessions; i++)
        write_session(&json, &view.session[i]);
    json_close(&json);
    json_open_array(&json, "files");
    for (unsigned i = 0; i < view.files; i++)
        if (file_shown(&view.file[i]))
            write_file(&json, &view.file[i]);
    json_close(&json);
    json_end(&json);
}

int status_main(int argc, char **argv)
{
    struct options options;
    struct portus_link link;
    int operand = options_parse(&options, argc, argv, OPTION_JSON | OPTION_JOB), found;

    if (operand < 0)
        return CTL_USAGE;
    if (operand < argc) {
        complain("status: it takes no arguments: see portusctl help status");
        return CTL_USAGE;
    }
    found = look_open(&link, options.job, "status");
    if (found < 0)
        return CTL_FAILED;
    if (found == 0) {
        look(&view, link.control);
        portus_link_close(&link);
    }
    if (options.json)
        write_all(found == 0);
    else if (found > 0)
        puts(LOOK_NO_AGENT_TEXT ": nothing is being captured");
    else
        print_all();
    return CTL_OK;
}
