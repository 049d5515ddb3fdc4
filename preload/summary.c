/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * summary.c -- what the shim did, counted, and told at the end
 *
 * What plain writing costs is measured, not guessed: every Nth save of a program
 * that is to report is left plain. A save that was not faster is said to be so.
 */
#include "summary.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

static struct {
    _Atomic uint64_t files, bytes, capture_ns, wait_ns;
    _Atomic uint64_t referred;
    _Atomic uint64_t plain_bytes, plain_ns;
    _Atomic uint64_t saves, would;
    _Atomic uint64_t refused[VERDICT_COUNT];
    _Atomic uint64_t unshared[VERDICT_COUNT]; /* of them, what no agent has been told */
} count;

void summary_waited(uint64_t nanoseconds)
{
    struct portus_control *control = shim_control();

    if (nanoseconds == 0)
        return;
    atomic_fetch_add(&count.wait_ns, nanoseconds);
    if (control != NULL) {
        atomic_fetch_add(&control->waits, 1);
        atomic_fetch_add(&control->waited_ns, nanoseconds);
    }
}

void summary_share(struct portus_control *control)
{
    for (unsigned i = 0; i < PORTUS_REASON_COUNT; i++)
        atomic_fetch_add(&control->refused[i],
                         atomic_exchange(&count.unshared[VERDICT_REASONS + i], 0));
}

void summary_captured_file(void)
{
    atomic_fetch_add(&count.files, 1);
}

void summary_captured(uint64_t bytes, uint64_t nanoseconds)
{
    atomic_fetch_add(&count.bytes, bytes);
    atomic_fetch_add(&count.capture_ns, nanoseconds);
    if (shim_control() != NULL)
        atomic_fetch_add(&shim_control()->capture_ns, nanoseconds);
}

void summary_referred(uint64_t bytes)
{
    atomic_fetch_add(&count.referred, bytes);
}

void summary_plain(uint64_t bytes, uint64_t nanoseconds)
{
    atomic_fetch_add(&count.plain_bytes, bytes);
    atomic_fetch_add(&count.plain_ns, nanoseconds);
}

void summary_refused(enum verdict verdict)
{
    struct portus_control *control = shim_control();

    atomic_fetch_add(&count.refused[verdict], 1);
    atomic_fetch_add(&count.unshared[verdict], 1);
    if (control != NULL)
        summary_share(control);
}

void summary_would(void)
{
    atomic_fetch_add(&count.would, 1);
}

void summary_forget(void)
{
    count.files = count.bytes = count.capture_ns = count.wait_ns = 0;
    count.referred = 0;
    count.plain_bytes = count.plain_ns = count.saves = count.would = 0;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        count.refused[i] = count.unshared[i] = 0;
}

bool summary_sample(void)
{
    if (!shim.env.summary || shim.env.sample == 0 || shim.env.mode == PORTUS_REQUIRE)
        return false;
    return atomic_fetch_add(&count.saves, 1) % shim.env.sample == shim.env.sample - 1;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1ull << 30);
}

static const char *plural(uint64_t number)
{
    return number == 1 ? "" : "s";
}

static double seconds(uint64_t nanoseconds)
{
    return (double)nanoseconds / 1e9;
}

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...)
{
    char text[512];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        syscall(SYS_write, STDERR_FILENO, text,
                (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

static void gain(uint64_t captured)
{
    double ours = seconds(count.capture_ns + count.wait_ns) / gib(captured), plain;

    line("portus: summary: the program waited %.3f s: %.3f s capturing, %.3f s for files to be "
         "whole\n",
         seconds(count.capture_ns + count.wait_ns), seconds(count.capture_ns),
         seconds(count.wait_ns));
    if (count.plain_bytes == 0) {
        if (shim.env.sample == 0)
            line("portus: summary: plain writing was not measured: PORTUS_SAMPLE=0\n");
        else
            line("portus: summary: plain writing was not measured: one save in %llu is left plain "
                 "(PORTUS_SAMPLE)\n",
                 (unsigned long long)shim.env.sample);
        return;
    }
    plain = seconds(count.plain_ns) / gib(count.plain_bytes);
    if (plain > ours)
        line("portus: summary: plain writing takes %.2f s/GiB, captured %.2f: %.1f times faster\n",
             plain, ours, plain / ours);
    else
        line("portus: summary: plain writing takes %.2f s/GiB, captured %.2f: no gain\n", plain,
             ours);
}

void summary_print(void)
{
    static _Atomic bool printed;
    bool report = shim.env.mode == PORTUS_REPORT;

    if ((!shim.env.summary && !report) || atomic_exchange(&printed, true))
        return;
    if (report)
        line("portus: summary: would capture %llu file%s (PORTUS=report: nothing was changed)\n",
             (unsigned long long)count.would, plural(count.would));
    else
        line("portus: summary: captured %llu file%s, %.3f GiB\n", (unsigned long long)count.files,
             plural(count.files), gib(count.bytes));
    if (count.referred > 0)
        line("portus: summary: from a device: %.1f %% of it, which no CPU copied\n",
             100.0 * (double)count.referred / (double)count.bytes);
    if (count.bytes > 0)
        gain(count.bytes);
    if (count.plain_bytes > 0 && count.bytes == 0)
        line("portus: summary: %.3f GiB were left plain to be measured\n", gib(count.plain_bytes));
    for (unsigned i = VERDICT_REASONS; i < VERDICT_COUNT; i++)
        if (count.refused[i] > 0)
            line("portus: summary: not captured: %llu file%s %s\n",
                 (unsigned long long)count.refused[i], plural(count.refused[i]), policy_words(i));
}
