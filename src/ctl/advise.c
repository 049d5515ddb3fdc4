// SPDX-License-Identifier: BSD-3-Clause
/*
 * advise.c -- portusctl advise: the save interval that loses least
 *
 * A save stops the program for a while (stall), and counts only once it is in its file
 * (drain). If failures come at random, M apart on average, saves T apart lose of each second
 *
 *     stall / T  +  (T / 2 + drain + restart) / M
 *
 * which is least at T = sqrt(2 stall M): Young 1974. Daly 2006 goes on where that is not
 * small against M. What a drain adds to a loss does not depend on T, but saves cannot be
 * closer than they are drained.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/text.h"

#define MOST 1e15 /* files, seconds: more than there ever are */

struct measured {
    double files, capture, wait, lag;
    bool found;
};

struct advice {
    double stall, drain, mtbf, restart; /* s */
    double young, daly, interval;       /* s */
    double loss;                        /* part of the time */
    bool by_drain;                      /* it is what the drain takes */
};

/*
 * The sum over all lines of a metric; those of other names begin otherwise. False: what an agent
 * has counted is another number.
 */
static bool add(double *sum, const char *line, const char *name)
{
    size_t length = strlen(name);
    const char *value;
    double number;

    if (strncmp(line, name, length) != 0 || (line[length] != '{' && line[length] != ' '))
        return true;
    value = strrchr(line, ' ');
    number = value != NULL ? strtod(value + 1, NULL) : -1;
    *sum += number;
    return number >= 0 && *sum < MOST;
}

/* Files that PORTUS_METRICS has written. 0, or an exit status. */
static int read_metrics(struct measured *measured, const char *path)
{
    static char line[8192];
    FILE *file = fopen(path, "re");
    bool right = true;

    if (file == NULL) {
        complain("advise: %s: %s", path, strerror(errno));
        return CTL_FAILED;
    }
    while (right && fgets(line, sizeof(line), file) != NULL)
        right = add(&measured->files, line, "portus_drained_files_total") &&
                add(&measured->lag, line, "portus_drain_lag_seconds_total") &&
                add(&measured->capture, line, "portus_capture_seconds_total") &&
                add(&measured->wait, line, "portus_wait_seconds_total");
    fclose(file);
    if (!right) {
        complain("advise: %s: impossible numbers: these are no metrics of an agent", path);
        return CTL_FAILED;
    }
    measured->found = true;
    return CTL_OK;
}

static struct advice think(double stall, double drain, double mtbf, double restart)
{
    struct advice advice = {.stall = stall, .drain = drain, .mtbf = mtbf, .restart = restart};
    double part = stall / (2 * mtbf);

    advice.young = sqrt(2 * stall * mtbf);
    advice.daly = part < 1 ? advice.young * (1 + sqrt(part) / 3 + part / 9) - stall : mtbf;
    advice.interval = advice.daly;
    if (advice.interval < stall + drain) {
        advice.interval = stall + drain;
        advice.by_drain = true;
    }
    advice.loss = stall / advice.interval + (advice.interval / 2 + drain + restart) / mtbf;
    if (advice.loss > 1)
        advice.loss = 1;
    return advice;
}

/* "0.163 s", "1 min 5 s". */
static const char *span(char out[TEXT_SPAN], double seconds)
{
    if (seconds < 10)
        snprintf(out, TEXT_SPAN, "%.3f s", seconds);
    else
        text_span(out, seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX);
    return out;
}

static void print_arithmetic(const struct advice *advice)
{
    char one[TEXT_SPAN], two[TEXT_SPAN];

    printf("Young    sqrt(2 * %.6g s * %.6g s) = %s\n", advice->stall, advice->mtbf,
           span(one, advice->young));
    if (advice->stall < 2 * advice->mtbf)
        printf("Daly     %.6g s * (1 + sqrt(%.3g) / 3 + %.3g / 9) - %.6g s = %s\n", advice->young,
               advice->stall / (2 * advice->mtbf), advice->stall / (2 * advice->mtbf),
               advice->stall, span(one, advice->daly));
    else
        printf("Daly     a save takes longer than twice the time between failures: %s\n",
               span(one, advice->daly));
    if (advice->by_drain)
        printf("drain    saves cannot be closer than %s + %s\n", span(one, advice->stall),
               span(two, advice->drain));
    printf("lost     %.6g / %.6g + (%.6g / 2 + %.6g + %.6g) / %.6g = %.2f %% of the time\n",
           advice->stall, advice->interval, advice->interval, advice->drain, advice->restart,
           advice->mtbf, 100 * advice->loss);
}

static void print_all(const struct advice *advice, const struct advice *plain,
                      const struct measured *measured, uint64_t files)
{
    char text[TEXT_SPAN], other[TEXT_SPAN];

    if (measured->found)
        printf("measured %.0f files: %.3f s capturing, %.3f s waiting; %.3f s until they were "
               "whole; %llu file%s a save\n",
               measured->files, measured->capture, measured->wait, measured->lag,
               (unsigned long long)files, files == 1 ? "" : "s");
    printf("stall    %s a save, for which the program stops\n", span(text, advice->stall));
    printf("drain    %s more until it is in its file\n", span(text, advice->drain));
    printf("failures every %s, and %s to begin again\n", span(text, advice->mtbf),
           span(other, advice->restart));
    print_arithmetic(advice);
    printf("advice   save every %s", span(text, advice->interval));
    printf(": %.2f %% of the time is lost\n", 100 * advice->loss);
    if (plain != NULL)
        printf("plain    saves that stop the program for %s: every %s, %.2f %% lost\n",
               span(text, plain->stall), span(other, plain->interval), 100 * plain->loss);
}

static uint64_t nanoseconds(double seconds)
{
    return seconds < 0                          ? 0
           : seconds * 1e9 < (double)UINT64_MAX ? (uint64_t)(seconds * 1e9)
                                                : UINT64_MAX;
}

static void write_one(struct json *json, const char *key, const struct advice *advice)
{
    json_open_object(json, key);
    json_seconds(json, "stall", nanoseconds(advice->stall));
    json_seconds(json, "drain", nanoseconds(advice->drain));
    json_seconds(json, "mtbf", nanoseconds(advice->mtbf));
    json_seconds(json, "restart", nanoseconds(advice->restart));
    json_seconds(json, "young", nanoseconds(advice->young));
    json_seconds(json, "daly", nanoseconds(advice->daly));
    json_seconds(json, "interval", nanoseconds(advice->interval));
    json_seconds(json, "lost", nanoseconds(advice->loss)); /* of one second */
    json_close(json);
}

static void write_all(const struct advice *advice, const struct advice *plain)
{
    struct json json;

    json_begin(&json, stdout);
    write_one(&json, "advice", advice);
    if (plain != NULL)
        write_one(&json, "plain", plain);
    json_end(&json);
}

int advise_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_JSON | OPTION_ADVISE);
    struct measured measured = {0};
    struct advice advice, plain;
    uint64_t files;
    int status = CTL_OK;

    if (operand < 0)
        return CTL_USAGE;
    files = options.files != 0 ? options.files : 1;
    for (int i = operand; i < argc && status == CTL_OK; i++)
        status = read_metrics(&measured, argv[i]);
    if (status != CTL_OK)
        return status;
    if (options.mtbf <= 0) {
        complain("advise: how often does the job fail? give --mtbf, for example 8h; of N machines "
                 "it is one's divided by N");
        return CTL_USAGE;
    }
    if (measured.found && measured.files > 0) {
        double saves = measured.files / (double)files;

        if (options.stall < 0)
            options.stall = (measured.capture + measured.wait) / saves;
        if (options.drain < 0)
            options.drain = measured.lag / measured.files;
    }
    if (options.stall <= 0) {
        complain(measured.found ? "advise: nothing was captured in these metrics: give --stall"
                                : "advise: how long does a save stop the program? give --stall, or "
                                  "files that PORTUS_METRICS has written");
        return measured.found ? CTL_FAILED : CTL_USAGE;
    }
    if (options.drain < 0)
        options.drain = 0;
    if (options.restart < 0)
        options.restart = 0;
    advice = think(options.stall, options.drain, options.mtbf, options.restart);
    if (options.plain > 0)
        plain = think(options.plain, 0, options.mtbf, options.restart);
    if (options.json)
        write_all(&advice, options.plain > 0 ? &plain : NULL);
    else
        print_all(&advice, options.plain > 0 ? &plain : NULL, &measured, files);
    return CTL_OK;
}
