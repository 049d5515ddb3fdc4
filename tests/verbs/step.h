/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step.h -- a place at which a process stops itself, so that a test may kill it there, and nowhere else
 *
 * STEPS=FILE, with a line "PROGRAM WHAT NUMBER COUNT": the program, at the COUNT-th time that it comes there,
 * writes "stopped PID" into the file and stops (SIGSTOP). Who continues it has it go on as if nothing had been.
 */
#ifndef TESTS_VERBS_STEP_H
#define TESTS_VERBS_STEP_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void step(const char *what, unsigned number)
{
    static char last[128];
    static unsigned times;
    char text[128] = "", place[128];
    const char *file = getenv("STEPS");
    unsigned long count;
    int saved = errno, fd = file != NULL ? open(file, O_RDWR | O_CLOEXEC) : -1;
    char *end;

    if (fd < 0)
        return;
    if (read(fd, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    if (strcmp(text, last) != 0) {
        strcpy(last, text);
        times = 0;
    }
    end = strrchr(text, ' ');
    snprintf(place, sizeof(place), "%s %s %u", program_invocation_short_name, what, number);
    if (end != NULL && strncmp(text, place, (size_t)(end - text)) == 0 && place[end - text] == '\0') {
        count = strtoul(end, NULL, 10);
        if (++times == count && ftruncate(fd, 0) == 0) {
            lseek(fd, 0, SEEK_SET);
            dprintf(fd, "stopped %d\n", getpid());
            close(fd);
            fd = -1;
            raise(SIGSTOP);
        }
    }
    if (fd >= 0)
        close(fd);
    errno = saved;
}

#endif
