// SPDX-License-Identifier: BSD-3-Clause
/*
 * main.c -- portusctl: the table of subcommands, help, and the options they share
 *
 * Not here: anything that a subcommand does. A new one is one file, one line in
 * ctl.h and one entry of the table below; help, the usage text and the check for
 * unknown names come from the table.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "ctl/ctl.h"
#include "ctl/dial.h"
#include "ctl/text.h"
#include "portus/portus.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments;
    const char *summary;
    const char *help; /* whole sentences */
} commands[] = {
    {"status", status_main, "[--json] [--job NAME]", "show the agent, its programs and live files",
     "Shows the agent of this user and container: whether it captures, the programs that\n"
     "are connected, how full their rings are, the files that are not drained yet, the\n"
     "speed of the drain and the last error. It is no error if no agent runs.\n"},
    {"wait", wait_main, "[--timeout SECONDS] [--job NAME] [PATH...]",
     "wait until checkpoints are drained and synced",
     "Waits until each PATH is an ordinary file again, whole and synced to its disk. A\n"
     "directory stands for the live files in and below it. Without PATH: until all that\n"
     "was captured before this moment is drained and synced. Exits with 1 and the reason\n"
     "if that cannot be had.\n"},
    {"off", off_main, "[--timeout SECONDS] [--job NAME]", "drain everything and capture no more",
     "Tells the agent to capture nothing new, waits until all that was captured is in the\n"
     "files, and says how much that was. Running programs go on and write as usual.\n"},
    {"on", on_main, "[--timeout SECONDS] [--job NAME]", "capture again after off",
     "Takes back off: checkpoints that are opened from now on are captured again.\n"},
    {"doctor", doctor_main, "[--json] [--job NAME] [CMD...] [DIR...] [tcp://HOST...]",
     "say whether checkpoints can be captured here",
     "Examines this machine, the commands CMD and the directories DIR (without DIR: the\n"
     "current one; an argument that is a directory is a DIR, any other must be a command, or a\n"
     "store on another machine, which is reached and measured)\n"
     "and says of each point whether it is right, what it means if not, and what to do.\n"
     "CMD is only looked at, never run. Exit status: 0 works, 1 slower (something will\n"
     "not be captured), 2 off (nothing can be captured).\n"},
    {"pool", pool_main,
     "create POOL SIZE [--objects N] [--force] | info POOL | check POOL [--remove-damaged] | "
     "resize POOL SIZE | badblocks POOL [--clear]",
     "make a pool, look at one, resize it",
     "create makes a pool for versions of checkpoints: POOL is a file, best on persistent\n"
     "memory that is mounted with -o dax, or a device /dev/daxN.N; SIZE has K, M, G or T.\n"
     "info shows what it is and how full. check reads all of it, and says what is damaged;\n"
     "with --remove-damaged it frees what versions take that are left out. resize makes it\n"
     "larger, or smaller as far as nothing lies beyond. badblocks lists what the device cannot\n"
     "read any more, and what that hits; --clear makes it readable, as zeros. A training job uses "
     "it with "
     "PORTUS_STORE=POOL.\n"},
    {"ls", ls_main, "[--store POOL] [-l] [--json] [PATH...]",
     "show the checkpoints that a pool holds",
     "Shows the newest version of each file in the pool, of those that are PATH or in it:\n"
     "commit, s if with it all files of the directory were whole, p pinned, d damaged; size\n"
     "and age. With -l mode, owner, how many versions there are and what they all take.\n"},
    {"versions", versions_main, "[--store POOL] [-l] [--json] PATH...",
     "show all versions of files",
     "Shows all versions of each PATH, or of the files in it, the newest last.\n"},
    {"restore", restore_main, "[--store POOL] [--version N] [--to DIR] [--force] PATH...",
     "bring files back from a pool",
     "Writes each PATH anew from its newest version, or from its state at commit N. A\n"
     "directory comes back as it was when all its files were whole the last time. A file\n"
     "that is there is completed if it is the beginning of its version, and otherwise left\n"
     "alone without --force. With --to the files go into DIR, under their own paths.\n"},
    {"diff", diff_main, "[--store POOL] [--json] PATH V1 V2",
     "show which bytes differ between two versions",
     "Shows the ranges of bytes (first, and the first after it) that differ between commits\n"
     "V1 and V2 of PATH; such with less than 16 equal bytes between them as one. Exit status:\n"
     "0 the same, 1 they differ, 2 it could not be found out.\n"},
    {"complete", complete_main, "[--store POOL] PATH... | --list [PATH...] | --extents PATH",
     "complete files that a killed job left short",
     "Completes each PATH, or the files in it, that is shorter than its newest version in the\n"
     "pool and has not been changed since that was made, after its bytes were compared; as an\n"
     "open does with PORTUS_RESTORE=auto. Anything else is left alone. --list changes nothing:\n"
     "for programs it writes the size that each such file should have, a space and its path,\n"
     "ended by a NUL byte, and one more NUL byte at the end. --extents is for the shim.\n"},
    {"verify", verify_main, "[--store POOL] [PATH...]", "check what a pool holds",
     "Reads all versions of each PATH, or of all files, and compares their checksums.\n"},
    {"pin", pin_main, "[--store POOL] [--version N] PATH...", "keep versions until unpin",
     "Keeps the newest version of each PATH, or that of commit N, whatever needs room; of\n"
     "a directory all its files'.\n"},
    {"unpin", unpin_main, "[--store POOL] [--version N] PATH...", "let pinned versions go",
     "Takes pin back: the versions make room when it is needed.\n"},
    {"rm", rm_main, "[--store POOL] --version N PATH...", "remove a version from a pool",
     "Removes version N of each PATH from the pool. The file itself is not touched.\n"},
    {"gc", gc_main, "[--store POOL] SIZE", "make room in a pool",
     "Removes the oldest versions that nothing needs until SIZE bytes are free.\n"},
    {"export", export_main, "[--store POOL] [--all] (--to DIR | --tar) [PATH...]",
     "copy what a pool holds",
     "Copies the newest version of each PATH, or of all files, into DIR, under their own\n"
     "paths, or writes them to standard output as tar; with --all each version, as\n"
     "PATH@COMMIT. Begun again, it goes on where it was.\n"},
    {"import", import_main, "[--store POOL] [--all] (DIR | --tar)", "put copies into a pool",
     "Makes a version of each file below DIR, or in the tar stream on standard input; its path\n"
     "is what follows DIR. With --all names are taken as export --all makes them. No portusd\n"
     "may serve the pool meanwhile.\n"},
    {"scrub", scrub_main, "[--store POOL] [--pace SIZE] [--background]",
     "read all of a pool, and repair it",
     "Reads all of the pool, SIZE bytes a second (256M), and checks it. What stands twice is\n"
     "written anew where a copy is damaged; the bytes of a version are, from the file itself,\n"
     "if that still is what it was and has them. What cannot be repaired is marked. If a\n"
     "portusd serves the pool it does it; with --background it is not waited for.\n"},
    {"key", key_main, "NAME FILE", "make a key for a store on another machine",
     "Writes a new key for NAME into FILE, readable by its owner alone. PORTUS_KEY=FILE uses\n"
     "it; its line goes into the file that the store's portusd has as --keys, too.\n"},
    {"try", try_main,
     "[--json] [--from DIR] [--to DIR] [--kills N] [--timeout SECONDS] [--] CMD [ARGUMENT...]",
     "run a command plainly and captured, and compare",
     "Runs CMD in a new directory below the current one (or --to), empty or a copy of --from,\n"
     "plainly, and captured; then kills it at random instants (8, or --kills) and lets it run\n"
     "again, and has it fill a small disk. Says what differs, which files are captured and\n"
     "why others are not, and what a save gains. All else that CMD touches is touched by each\n"
     "run. Exit status: 0 nothing differs, 1 something does, 2 it could not be tried.\n"},
    {"top", top_main, "[--once] [--interval SECONDS] [--job NAME]", "watch saves, drains and pulls",
     "Shows once a second what moves: bytes saved and drained a second, what is left, for each\n"
     "program and live file; what a store still has to pull; waits and errors. q ends it. With\n"
     "--once, or if standard output is no terminal, one look.\n"},
    {"advise", advise_main,
     "[--json] --mtbf TIME [--stall TIME] [--drain TIME] [--restart TIME] [--plain TIME] "
     "[--files N] [METRICS...]",
     "say how often to save",
     "Says which interval between saves loses least, by Young and Daly, and shows how that is\n"
     "computed: from the time between failures (--mtbf: of the whole job), what a save stops the\n"
     "program for (--stall), how long it takes until it is in its file (--drain) and to begin "
     "again\n"
     "(--restart). Stall and drain are taken from METRICS, files that PORTUS_METRICS has written,\n"
     "of saves of N files each (1). --plain: what a save takes without Portus, to be compared.\n"
     "A TIME is in seconds, or has m, h or d behind it.\n"},
    {"version", version_main, "[--job NAME]", "show versions and where the shim is",
     "Shows the versions of portusctl and of the agent, if one runs, and the shim's path.\n"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void usage(FILE *out)
{
    fputs("usage: portusctl COMMAND [arguments]\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs("  help      show this, or what one command does: portusctl help COMMAND\n", out);
}

static int help(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2) {
        usage(stdout);
        return CTL_OK;
    }
    command = find(argv[1]);
    if (!command) {
        complain("help: no command is named %.64s: see portusctl help", argv[1]);
        return CTL_USAGE;
    }
    printf("usage: portusctl %s %s\n\n%s", command->name, command->arguments, command->help);
    return CTL_OK;
}

void complain(const char *format, ...)
{
    char text[1024];
    int saved = errno;
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fflush(stdout);
    fprintf(stderr, "portusctl: %s\n", text);
    errno = saved;
}

/* Seconds, with a fraction if wanted. Returns 0 or -EINVAL. */
static int parse_seconds(uint64_t *ns, const char *text)
{
    char *end;
    double seconds;

    errno = 0;
    seconds = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(seconds) || seconds < 0 || seconds > 1e9)
        return -EINVAL;
    *ns = (uint64_t)(seconds * 1e9);
    return 0;
}

static int parse_count(uint64_t *value, const char *text)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno || end == text || *end || text[0] == '-' || *value == 0 ? -EINVAL : 0;
}

/* Seconds, or with m, h or d behind it minutes, hours or days. Returns 0 or -EINVAL. */
static int parse_span(double *seconds, const char *text)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    double unit = 1, value;
    char *end;

    errno = 0;
    value = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (end[0] == units[i].letter && end[1] == '\0') {
            unit = units[i].seconds;
            end++;
            break;
        }
    if (end == text || *end != '\0' || errno || !isfinite(value) || value < 0 ||
        value * unit > 1e10)
        return -EINVAL;
    *seconds = value * unit;
    return 0;
}

static int parse_advise(struct options *options, const char *name, const char *text)
{
    return strcmp(name, "files") == 0     ? parse_count(&options->files, text)
           : strcmp(name, "mtbf") == 0    ? parse_span(&options->mtbf, text)
           : strcmp(name, "stall") == 0   ? parse_span(&options->stall, text)
           : strcmp(name, "drain") == 0   ? parse_span(&options->drain, text)
           : strcmp(name, "restart") == 0 ? parse_span(&options->restart, text)
                                          : parse_span(&options->plain, text);
}

int options_parse(struct options *options, int argc, char **argv, unsigned accepts)
{
    static const struct option known[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        {"store", required_argument, NULL, OPTION_STORE},
        {"version", required_argument, NULL, OPTION_VERSION},
        {"objects", required_argument, NULL, OPTION_OBJECTS},
        {"to", required_argument, NULL, OPTION_TO},
        {"force", no_argument, NULL, OPTION_FORCE},
        {"pace", required_argument, NULL, OPTION_PACE},
        {"background", no_argument, NULL, OPTION_BACKGROUND},
        {"long", no_argument, NULL, OPTION_LONG},
        {"all", no_argument, NULL, OPTION_ALL},
        {"tar", no_argument, NULL, OPTION_TAR},
        {"clear", no_argument, NULL, OPTION_CLEAR},
        {"remove-damaged", no_argument, NULL, OPTION_REMOVE_DAMAGED},
        {"list", no_argument, NULL, OPTION_LIST},
        {"extents", no_argument, NULL, OPTION_EXTENTS},
        {"from", required_argument, NULL, OPTION_FROM},
        {"kills", required_argument, NULL, OPTION_KILLS},
        {"once", no_argument, NULL, OPTION_ONCE},
        {"interval", required_argument, NULL, OPTION_INTERVAL},
        {"mtbf", required_argument, NULL, OPTION_ADVISE},
        {"stall", required_argument, NULL, OPTION_ADVISE},
        {"drain", required_argument, NULL, OPTION_ADVISE},
        {"restart", required_argument, NULL, OPTION_ADVISE},
        {"plain", required_argument, NULL, OPTION_ADVISE},
        {"files", required_argument, NULL, OPTION_ADVISE},
        {"job", required_argument, NULL, OPTION_JOB},
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    static struct portus_env env;
    int option, which = 0;

    *options = (struct options){.env = &env,
                                .timeout_ns = UINT64_MAX,
                                .kills = UINT64_MAX,
                                .mtbf = -1,
                                .stall = -1,
                                .drain = -1,
                                .restart = -1,
                                .plain = -1};
    options->wrong_env = portus_env_load(&env);
    options->job = env.job;
    options->store = env.store;
    dial_setup(env.key);
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, accepts & OPTION_COMMAND ? "+:hl" : ":hl", known,
                                 &which)) != -1) {
        if (option == 'h') {
            help(2, (char *[]){"help", argv[0]});
            exit(CTL_OK);
        }
        if (option == 'l')
            option = OPTION_LONG;
        if (option == ':') {
            complain("%s: %s needs a value: see portusctl help %s", argv[0], argv[optind - 1],
                     argv[0]);
            return -1;
        }
        if (option == '?' || !(accepts & (unsigned)option)) {
            complain("%s: there is no option %.64s: see portusctl help %s", argv[0],
                     argv[optind - 1], argv[0]);
            return -1;
        }
        if (option == OPTION_JSON)
            options->json = 1;
        if (option == OPTION_JOB)
            options->job = optarg;
        if (option == OPTION_STORE)
            options->store = optarg;
        if (option == OPTION_TO)
            options->to = optarg;
        if (option == OPTION_FROM)
            options->from = optarg;
        if (option == OPTION_KILLS && strcmp(optarg, "0") == 0)
            options->kills = 0;
        options->force |= option == OPTION_FORCE;
        options->background |= option == OPTION_BACKGROUND;
        options->long_list |= option == OPTION_LONG;
        options->all |= option == OPTION_ALL;
        options->tar |= option == OPTION_TAR;
        options->clear |= option == OPTION_CLEAR;
        options->remove_damaged |= option == OPTION_REMOVE_DAMAGED;
        if (option == OPTION_PACE && text_size(&options->pace, optarg) != 0) {
            complain("%s: --pace %.64s: give bytes a second, for example 256M", argv[0], optarg);
            return -1;
        }
        options->list |= option == OPTION_LIST;
        options->extents |= option == OPTION_EXTENTS;
        if ((option == OPTION_VERSION && parse_count(&options->version, optarg)) ||
            (option == OPTION_OBJECTS && parse_count(&options->objects, optarg)) ||
            (option == OPTION_KILLS && options->kills != 0 &&
             parse_count(&options->kills, optarg))) {
            complain("%s: %.64s is no number from 1 up", argv[0], optarg);
            return -1;
        }
        options->once |= option == OPTION_ONCE;
        if (option == OPTION_ADVISE && parse_advise(options, known[which].name, optarg) != 0) {
            complain("%s: --%s %.64s: give %s", argv[0], known[which].name, optarg,
                     strcmp(known[which].name, "files") == 0
                         ? "a number from 1 up"
                         : "a time, for example 90, 0.2, 30m, 8h or 3d");
            return -1;
        }
        if (option == OPTION_INTERVAL &&
            (parse_seconds(&options->interval_ns, optarg) || options->interval_ns < 10000000 ||
             options->interval_ns > 3600000000000ull)) {
            complain("%s: --interval %.64s: give seconds, from 0.01 to 3600", argv[0], optarg);
            return -1;
        }
        if (option == OPTION_TIMEOUT && parse_seconds(&options->timeout_ns, optarg)) {
            complain("%s: --timeout %.64s is no number of seconds: give for example 30 or 0.5",
                     argv[0], optarg);
            return -1;
        }
    }
    return optind;
}

int main(int argc, char **argv)
{
    const struct command *command;
    int status;

    portus_log_setup(PORTUS_LOG_WARN, NULL, "portusctl: ");
    if (argc < 2) {
        usage(stderr);
        return CTL_USAGE;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        status = help(argc - 1, argv + 1);
    } else {
        command = find(!strcmp(argv[1], "--version") ? "version" : argv[1]);
        if (!command) {
            complain("no command is named %.64s", argv[1]);
            usage(stderr);
            return CTL_USAGE;
        }
        status = command->run(argc - 1, argv + 1);
    }
    if (fflush(stdout) || ferror(stdout)) {
        complain("cannot write the answer: %s", strerror(errno));
        return CTL_FAILED;
    }
    return status;
}
