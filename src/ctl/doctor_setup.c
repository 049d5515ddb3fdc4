// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_setup.c -- doctor's look at Portus itself: variables, shim, agent, LD_PRELOAD
 *
 * Whether the shim can be loaded is asked of the loader: `ld.so --list PROGRAM`
 * with the shim in LD_PRELOAD resolves all libraries, names what is missing, and
 * runs nothing. The agent is run once, with --version.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/doctor.h"
#include "ctl/elf.h"
#include "ctl/look.h"
#include "ctl/text.h"

#define RUN_NS 5000000000ull

/*
 * Runs argv with that LD_PRELOAD (NULL: none) and no other environment. What it
 * writes goes to out, cut at room. Returns its wait status, or -1.
 */
static int run(char *const argv[], const char *preload, char *out, size_t room)
{
    char variable[PATH_MAX + 16] = "LC_ALL=C", *environment[] = {variable, NULL};
    posix_spawn_file_actions_t actions;
    uint64_t deadline = portus_now() + RUN_NS;
    size_t used = 0;
    int channel[2], status = -1;
    pid_t child = -1;

    if (preload != NULL)
        snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", preload);
    if (pipe2(channel, O_CLOEXEC) < 0)
        return -1;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        if (posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, channel[1], 1) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, channel[1], 2) != 0 ||
            posix_spawn(&child, argv[0], &actions, NULL, argv, environment) != 0)
            child = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(channel[1]);
    while (child > 0) {
        struct pollfd event = {.fd = channel[0], .events = POLLIN};
        char piece[4096];
        ssize_t length;

        if (portus_now() > deadline) {
            kill(child, SIGKILL);
            break;
        }
        if (poll(&event, 1, 100) <= 0)
            continue;
        length = read(channel[0], piece, sizeof(piece));
        if (length <= 0)
            break;
        if ((size_t)length > room - 1 - used)
            length = (ssize_t)(room - 1 - used);
        memcpy(out + used, piece, (size_t)length);
        used += (size_t)length;
    }
    out[used] = '\0';
    close(channel[0]);
    if (child > 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    return status;
}

/* The first line of text that has one of the loader's complaints in it. */
static void find_complaint(const char *text, char *said, unsigned room)
{
    static const char *const signs[] = {"ERROR:", "not found", "cannot", "error while"};

    said[0] = '\0';
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        for (unsigned i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
            size_t length = strcspn(line, "\n");

            if (memmem(line, length, signs[i], strlen(signs[i])) == NULL)
                continue;
            while (*line == ' ' || *line == '\t') {
                line++;
                length--;
            }
            snprintf(said, room, "%.*s", (int)length, line);
            return;
        }
}

bool doctor_loads(const struct doctor *doctor, const char *program, char *said, unsigned room)
{
    static char text[65536];
    struct elf_facts own;
    char *argv[] = {own.interpreter, "--list", (char *)program, NULL};
    int status;

    if (elf_read(&own, "/proc/self/exe") != 0 || own.interpreter[0] == '\0') {
        snprintf(said, room, "portusctl's own loader is not known");
        return false;
    }
    status = run(argv, doctor->shim, text, sizeof(text));
    find_complaint(text, said, room);
    return status == 0 && strstr(text, doctor->shim) != NULL &&
           (said[0] == '\0' || strstr(said, "libportus") == NULL);
}

void doctor_environment(struct doctor *doctor)
{
    static const char *const modes[] = {"auto", "require", "report", "off"};
    const struct portus_env *env = doctor->env;

    if (doctor->wrong_env > 0)
        doctor_say(doctor, SLOWER, "environment", "correct them: see portus(7), ENVIRONMENT",
                   "%d PORTUS variables have wrong values; the defaults are used for them",
                   doctor->wrong_env);
    if (env->mode == PORTUS_OFF || env->mode == PORTUS_REPORT)
        doctor_say(doctor, OFF, "environment", "unset PORTUS", "PORTUS=%s: nothing is captured",
                   modes[env->mode]);
    else if (doctor->wrong_env == 0)
        doctor_say(doctor, WORKS, "environment", "", "PORTUS=%s, no wrong value", modes[env->mode]);
}

void doctor_shim(struct doctor *doctor)
{
    char said[512] = "", self[PATH_MAX] = ""; /* by name: in the loader /proc/self is the loader */

    if (!doctor->has_shim) {
        doctor_say(doctor, OFF, "shim", "make install, or keep portusctl in the build directory",
                   "libportus_shim.so is not beside portusctl and not in ../lib/portus");
        return;
    }
    if (strpbrk(doctor->shim, " :\t\n") != NULL) {
        doctor_say(doctor, OFF, "shim", "install it under a path without blanks and colons",
                   "LD_PRELOAD cannot name %s", doctor->shim);
        doctor->has_shim = false;
        return;
    }
    if (realpath("/proc/self/exe", self) != NULL && doctor_loads(doctor, self, said, sizeof(said)))
        doctor_say(doctor, WORKS, "shim", "", "%s can be loaded", doctor->shim);
    else
        doctor_say(doctor, OFF, "shim", "build it on this system", "%s cannot be loaded: %s",
                   doctor->shim, said[0] != '\0' ? said : "the loader does not say why");
}

static void look_at_running_agent(struct doctor *doctor)
{
    static struct view view;
    const char *why = "it does not answer";
    struct portus_link link;
    struct portus_link_options options = {.role = PORTUS_ROLE_LOOK, .job = doctor->job};
    int error = portus_link_open(&link, &options, &why);

    if (error == -ECONNREFUSED) {
        doctor_say(doctor, WORKS, "running agent", "",
                   "none; the first checkpoint that is saved starts it");
        return;
    }
    if (error != 0) {
        doctor_say(doctor, OFF, "running agent",
                   error == -EPROTO ? "wait until its programs have ended"
                                    : "set PORTUS_JOB to another name, if it is not yours",
                   "it cannot be used: %s (%s)", why, strerror(-error));
        return;
    }
    look(&view, link.control);
    portus_link_close(&link);
    if (view.passive == PORTUS_PASSIVE_OFF)
        doctor_say(doctor, OFF, "running agent", "portusctl on", "it was switched off");
    else if (view.passive != PORTUS_CAPTURING)
        doctor_say(doctor, SLOWER, "running agent", "",
                   "it was told to end and captures nothing new; another one follows it");
    else
        doctor_say(doctor, WORKS, "running agent", "", "version %s, process %u", view.release,
                   view.keeper);
}

void doctor_agent(struct doctor *doctor)
{
    char path[PATH_MAX], text[256];
    char *argv[] = {path, "--version", NULL};
    int status;

    if (!install_agent(path, doctor->env->agent)) {
        doctor_say(doctor, OFF, "agent", "make install, or set PORTUS_AGENT to its path", "%s",
                   doctor->env->agent[0] != '\0' ? "PORTUS_AGENT names no file"
                                                 : "portus-agent is not beside the shim");
    } else {
        status = run(argv, NULL, text, sizeof(text));
        text[strcspn(text, "\n")] = '\0';
        if (status == 0 && strcmp(text, "portus-agent " PORTUS_VERSION) == 0)
            doctor_say(doctor, WORKS, "agent", "", "%s is version %s", path, PORTUS_VERSION);
        else if (status == 0 && strncmp(text, "portus-agent ", 13) == 0)
            doctor_say(doctor, OFF, "agent", "install shim, agent and portusctl of one version",
                       "%s is version %.32s, portusctl is %s", path, text + 13, PORTUS_VERSION);
        else
            doctor_say(doctor, OFF, "agent", "build it on this system", "%s does not run: %.160s",
                       path, text);
    }
    look_at_running_agent(doctor);
}

void doctor_preload(struct doctor *doctor)
{
    const char *preload = getenv("LD_PRELOAD");

    if (preload == NULL || preload[0] == '\0')
        doctor_say(doctor, WORKS, "LD_PRELOAD", "",
                   "not set here; it reaches dynamic glibc programs and all that they start, "
                   "not static, setuid, 32-bit or musl ones, nor other hosts or containers");
    else if (doctor->has_shim && strstr(preload, doctor->shim) != NULL)
        doctor_say(doctor, WORKS, "LD_PRELOAD", "", "the shim is in it");
    else if (strstr(preload, "libportus_shim") != NULL)
        doctor_say(doctor, SLOWER, "LD_PRELOAD", "name the shim beside this portusctl",
                   "%.512s: it names another shim than this portusctl's", preload);
    else
        doctor_say(doctor, WORKS, "LD_PRELOAD", "put the shim before them, with a colon between",
                   "%.512s: other libraries are in it; the first that has a call gets it", preload);
}
