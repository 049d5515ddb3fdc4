// SPDX-License-Identifier: BSD-3-Clause
/*
 * top.c -- portusctl top: a live view of saves, drains and pulls
 *
 * Looks at the memory that the agent shares, twice a frame's time apart, and shows what
 * has moved between. It holds no connection while it looks, so an agent that nobody needs
 * still ends; then it waits for the next one. Escape sequences as any terminal since the
 * VT100 has them.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/ctl.h"
#include "ctl/look.h"
#include "ctl/text.h"

#define CELLS 12
#define BEFORE 65 /* columns before a file's name */
#define FRAME_NS 1000000000ull
#define BACK "\033[?25h\033[?1049l"
#define OVER "\033[?1049h\033[?25l"

static struct view now, before;
static struct portus_control *control;
static uint64_t looked, looked_before; /* ns */

static struct termios usual;
static bool raw;
static volatile sig_atomic_t ended;

static void end(int number)
{
    ended = number;
}

/* What a frame is put together in, a line at a time, cut to the terminal. */
struct screen {
    unsigned columns, rows, used;
    bool terminal;
};

__attribute__((format(printf, 2, 3))) static void line(struct screen *screen, const char *format,
                                                       ...)
{
    char text[4 * PORTUS_FILE_PATH + 512], *at = text;
    va_list arguments;
    uint32_t rune;

    if (screen->used + 1 >= screen->rows)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (unsigned column = 0; *at != '\0' && column < screen->columns; column++)
        at += portus_rune(at, &rune);
    *at = '\0';
    screen->used++;
    printf("%s%s\n", text, screen->terminal ? "\033[K" : "");
}

static void measure(struct screen *screen)
{
    struct winsize window = {0};

    *screen = (struct screen){.columns = UINT32_MAX, .rows = UINT32_MAX, .terminal = raw};
    if (!raw)
        return;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) < 0 || window.ws_col == 0 || window.ws_row == 0)
        window = (struct winsize){.ws_col = 80, .ws_row = 24};
    screen->columns = window.ws_col;
    screen->rows = window.ws_row;
}

/* Bytes a second, of a number that only grows. */
static uint64_t rate(uint64_t value, uint64_t value_before)
{
    if (looked_before == 0 || looked <= looked_before || value < value_before)
        return 0;
    return (uint64_t)((double)(value - value_before) * 1e9 / (double)(looked - looked_before));
}

/* The same session a frame ago, or NULL. */
static const struct view_session *earlier(const struct view_session *session)
{
    for (unsigned i = 0; i < before.sessions && looked_before != 0; i++)
        if (before.session[i].number == session->number &&
            before.session[i].serial == session->serial)
            return &before.session[i];
    return NULL;
}

static void show_head(struct screen *screen)
{
    static const char *const state[] = {"capturing", "off", "ending"};
    char up[TEXT_SPAN], in[TEXT_BYTES], out[TEXT_BYTES], left[TEXT_BYTES], ring[TEXT_BYTES],
        age[TEXT_SPAN] = "", release[TEXT_ROOM(32)], text[TEXT_ROOM(PORTUS_ERROR_TEXT)];
    uint64_t saving = 0, oldest = 0, rings = 0;

    for (unsigned i = 0; i < now.sessions; i++) {
        const struct view_session *old = earlier(&now.session[i]);

        rings += now.session[i].ring_bytes;
        saving += rate(now.session[i].captured, old != NULL ? old->captured : 0);
    }
    for (unsigned i = 0; i < now.files; i++)
        if (view_live(&now.file[i]) && now.file[i].captured > now.file[i].drained &&
            now.file[i].age_ns > oldest)
            oldest = now.file[i].age_ns;
    line(screen, "portus %s  %s, up %s", text_safe(release, sizeof(release), now.release),
         now.passive < 3 ? state[now.passive] : "unknown", text_span(up, now.uptime_ns));
    line(screen, "saves %10s/s   drain %10s/s   left %10s%s%s   rings %10s", text_bytes(in, saving),
         text_bytes(out, rate(now.drained_bytes, looked_before != 0 ? before.drained_bytes : 0)),
         text_bytes(left, view_left(&now)), oldest > 0 ? ", oldest " : "",
         oldest > 0 ? text_span(age, oldest) : "", text_bytes(ring, rings));
    line(screen,
         "waits %" PRIu64 " calls, %.2f s   not captured %" PRIu64 "   errors %" PRIu32
         "   worker replaced %" PRIu32 "   store %s",
         now.waits, (double)now.waited_ns / 1e9, now.refused, now.errors, now.restarts,
         now.store != 0 ? "there" : "none");
    if (now.errors > 0)
        line(screen, "last error: %s", text_safe(text, sizeof(text), now.last_error));
}

static void show_sessions(struct screen *screen)
{
    char in[TEXT_BYTES], out[TEXT_BYTES], left[TEXT_BYTES], ring[TEXT_BYTES], pull[32];

    if (now.sessions == 0)
        return;
    line(screen, "%s", "");
    line(screen, "%10s  %12s  %12s  %10s  %10s  %s", "PID", "SAVES /s", "DRAIN /s", "LEFT", "RING",
         "TO BE PULLED");
    for (unsigned i = 0; i < now.sessions; i++) {
        const struct view_session *session = &now.session[i], *old = earlier(session);

        snprintf(pull, sizeof(pull), "%s", "-");
        if (session->claimed != PORTUS_UNCLAIMED)
            snprintf(pull, sizeof(pull), "%" PRIu64 " records",
                     session->head > session->claimed ? session->head - session->claimed : 0);
        line(screen, "%10" PRIu32 "  %12s  %12s  %10s  %10s  %s", session->pid,
             text_bytes(in, rate(session->captured, old != NULL ? old->captured : 0)),
             text_bytes(out, rate(session->drained, old != NULL ? old->drained : 0)),
             text_bytes(left, session->captured - session->drained),
             text_bytes(ring, session->ring_bytes), pull);
    }
}

/* The end of a safe text, which has so many characters at most: of a path that is the name. */
static char *tail(char *text, unsigned columns)
{
    unsigned length = 0;
    uint32_t rune;

    for (char *at = text; *at != '\0'; at += portus_rune(at, &rune))
        length++;
    for (unsigned over = length > columns ? length - columns + 3 : 0; over > 0; over--)
        text += portus_rune(text, &rune);
    return length > columns ? memcpy(text - 3, "...", 3) : text;
}

static void show_files(struct screen *screen)
{
    char size[TEXT_BYTES], left[TEXT_BYTES], age[TEXT_SPAN], bar[CELLS + 1],
        path[TEXT_ROOM(PORTUS_FILE_PATH + 4)];
    bool first = true;

    for (unsigned i = 0; i < now.files; i++) {
        const struct view_file *file = &now.file[i];
        double part = file->captured != 0 ? (double)file->drained / (double)file->captured : 1;

        if (!view_live(file) && file->error == 0)
            continue;
        if (first) {
            line(screen, "%s", "");
            line(screen, "%10s  %-9s  %10s  %-*s  %10s  %s", "AGE", "STATE", "SIZE", CELLS + 2,
                 "DRAINED", "LEFT", "FILE");
        }
        first = false;
        for (unsigned j = 0; j < CELLS; j++)
            bar[j] = part * CELLS >= j + 1 ? '#' : '.';
        bar[CELLS] = '\0';
        line(screen, "%10s  %-9s  %10s  [%s]  %10s  %s", text_span(age, file->age_ns),
             file->error != 0                     ? "failed"
             : file->state == PORTUS_FILE_TRIMMED ? "finishing"
             : file->closed                       ? "draining"
                                                  : "saving",
             text_bytes(size, file->size), bar, text_bytes(left, file->captured - file->drained),
             tail(text_safe(path, sizeof(path), file->path),
                  screen->columns > BEFORE + 8 ? screen->columns - BEFORE : 8));
    }
}

static void forget(void)
{
    if (control != NULL)
        munmap(control, sizeof(*control));
    control = NULL;
    looked = looked_before = 0;
}

/* Takes a look. 0, LOOK_NO_AGENT, or -1 after a message. */
static int take(const char *job)
{
    struct portus_link link;
    char state;
    int found;

    if (control != NULL) {
        state = portus_process_state(atomic_load(&control->keeper));
        if (state == 0 || state == 'Z')
            forget();
    }
    if (control == NULL) {
        found = look_open(&link, job, "top");
        if (found != 0)
            return found < 0 ? -1 : LOOK_NO_AGENT;
        control = link.control; /* it stays mapped */
        portus_link_close(&link);
    }
    before = now;
    looked_before = looked;
    look(&now, control);
    looked = portus_now();
    return 0;
}

static void show(int found)
{
    struct screen screen;

    measure(&screen);
    if (raw)
        fputs("\033[H", stdout);
    if (found == LOOK_NO_AGENT) {
        line(&screen, "%s", LOOK_NO_AGENT_TEXT ": nothing is being captured");
    } else {
        show_head(&screen);
        show_sessions(&screen);
        show_files(&screen);
    }
    if (raw)
        fputs("\033[J", stdout);
    fflush(stdout);
}

static void enter(void)
{
    struct termios silent;

    if (tcgetattr(STDIN_FILENO, &usual) == 0) {
        silent = usual;
        silent.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &silent);
    }
    raw = true;
    fputs(OVER, stdout);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGHUP, end);
}

static void leave(void)
{
    if (!raw)
        return;
    fputs(BACK, stdout);
    fflush(stdout);
    if (usual.c_lflag != 0)
        tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    raw = false;
}

/* Until it is time for the next frame, or a key is pressed: whether it is q. */
static bool wait_key(uint64_t ns)
{
    struct pollfd key = {STDIN_FILENO, POLLIN, 0};
    char byte;

    if (poll(&key, raw ? 1 : 0, (int)(ns / 1000000)) <= 0 || ended)
        return false;
    if (read(STDIN_FILENO, &byte, 1) <= 0)
        return true;
    return byte == 'q' || byte == 'Q' || byte == 4;
}

int top_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_JOB | OPTION_ONCE | OPTION_INTERVAL);
    uint64_t pause;
    int found;

    if (operand < 0)
        return CTL_USAGE;
    if (operand < argc) {
        complain("top: it takes no arguments: see portusctl help top");
        return CTL_USAGE;
    }
    pause = options.interval_ns != 0 ? options.interval_ns : FRAME_NS;
    found = take(options.job);
    if (found < 0)
        return CTL_FAILED;
    if (options.once || !isatty(STDOUT_FILENO)) {
        if (found == 0) { /* what moves is seen by a second look */
            wait_key(pause);
            found = take(options.job);
        }
        show(found);
        return found < 0 ? CTL_FAILED : CTL_OK;
    }
    enter();
    while (!ended && found >= 0) {
        show(found);
        if (wait_key(pause))
            break;
        if (!ended)
            found = take(options.job);
    }
    leave();
    return found < 0 ? CTL_FAILED : CTL_OK;
}
