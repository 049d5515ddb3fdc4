// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_command.c -- doctor's look at a command: does LD_PRELOAD reach it?
 *
 * The loader of glibc reads LD_PRELOAD. It takes no part in a static program, is
 * another one in a musl or 32-bit program, and ignores the variable where the
 * program gains rights. The command is read, and its libraries are listed by this
 * system's loader; it is never run.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gnu/libc-version.h>

#include "ctl/doctor.h"
#include "ctl/elf.h"

#define SCRIPTS 4 /* interpreters that may be scripts themselves, as the kernel allows */

static bool executable(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* As execvp finds it. Returns whether it did. */
static bool resolve(char out[PATH_MAX], const char *name)
{
    const char *directory = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        snprintf(out, PATH_MAX, "%s", name);
        return executable(out);
    }
    if (directory == NULL)
        directory = "/bin:/usr/bin";
    while (name[0] != '\0') {
        size_t length = strcspn(directory, ":");

        if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)length, directory, length != 0 ? "/" : "",
                     name) < PATH_MAX &&
            executable(out))
            return true;
        if (directory[length] == '\0')
            break;
        directory += length + 1;
    }
    return false;
}

/* The program that `env` runs, from a script's first line: "-S python3 -u", "A=b python3". */
static bool name_behind_env(char out[PATH_MAX], char *argument)
{
    for (char *word = strtok(argument, " \t"); word != NULL; word = strtok(NULL, " \t")) {
        if (word[0] == '-' || strchr(word, '=') != NULL)
            continue;
        snprintf(out, PATH_MAX, "%s", word);
        return true;
    }
    return false;
}

/* Goes from a script to what runs it. Returns 0 and changes path, or a negative errno. */
static int follow(char path[PATH_MAX])
{
    char interpreter[PATH_MAX], argument[PATH_MAX], name[PATH_MAX];
    const char *base;
    int error = script_read(path, interpreter, argument);

    if (error != 0)
        return error;
    base = strrchr(interpreter, '/');
    if (strcmp(base != NULL ? base + 1 : interpreter, "env") == 0 &&
        name_behind_env(name, argument))
        return resolve(path, name) ? 0 : -ENOENT;
    snprintf(path, PATH_MAX, "%s", interpreter);
    return executable(path) ? 0 : -ENOENT;
}

/* Whether exec would give the program rights that we have not: the loader is careful then. */
static const char *gains_rights(const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return NULL;
    if ((status.st_mode & S_ISUID) && status.st_uid != geteuid())
        return "it is setuid";
    if ((status.st_mode & S_ISGID) && status.st_gid != getegid())
        return "it is setgid";
    if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return "it has file capabilities";
    return NULL;
}

static bool newer_than_system(const struct elf_facts *facts)
{
    unsigned system[2];

    return glibc_version(system, gnu_get_libc_version()) &&
           (facts->glibc[0] > system[0] ||
            (facts->glibc[0] == system[0] && facts->glibc[1] > system[1]));
}

/* What a program's loader is, by its name. */
static bool is_musl(const char *interpreter)
{
    return strstr(interpreter, "/ld-musl-") != NULL;
}

/* The program is of the right kind; what remains to be said of it. */
static void judge_dynamic(struct doctor *doctor, const char *check, const char *path,
                          const char *subject, const struct elf_facts *facts)
{
    char said[512];

    if (facts->go)
        doctor_say(doctor, OFF, check, "", "%s is a Go program: it calls the kernel without libc",
                   subject);
    else if (newer_than_system(facts))
        doctor_say(doctor, OFF, check, "use a build for this system",
                   "%s needs glibc %u.%u, here is %s: it will not start", subject, facts->glibc[0],
                   facts->glibc[1], gnu_get_libc_version());
    else if (doctor->has_shim && !doctor_loads(doctor, path, said, sizeof(said)))
        doctor_say(doctor, OFF, check, "", "%s does not take the shim: %s", subject,
                   said[0] != '\0' ? said : "its loader does not say why");
    else if (facts->glibc[0] != 0)
        doctor_say(doctor, WORKS, check, "", "%s is dynamic, needs glibc %u.%u, here is %s",
                   subject, facts->glibc[0], facts->glibc[1], gnu_get_libc_version());
    else
        doctor_say(doctor, WORKS, check, "", "%s is dynamic, here is glibc %s", subject,
                   gnu_get_libc_version());
}

/* subject: path, or a script and in brackets path, which runs it. */
static void judge(struct doctor *doctor, const char *check, const char *path, const char *subject,
                  const struct elf_facts *facts)
{
    struct elf_facts own;
    const char *rights = gains_rights(path);

    if (!facts->program)
        doctor_say(doctor, OFF, check, "name a program", "%s cannot be run", subject);
    else if (elf_read(&own, "/proc/self/exe") == 0 &&
             (facts->bits != own.bits || facts->machine != own.machine))
        doctor_say(doctor, OFF, check, "use a program for this machine",
                   "%s is for another machine (%u-bit, type %u): the shim cannot be loaded into it",
                   subject, facts->bits, facts->machine);
    else if (facts->interpreter[0] == '\0')
        doctor_say(
            doctor, OFF, check, "use a dynamically linked build",
            "%s is static%s: LD_PRELOAD does not reach it, only dynamic programs that it starts",
            subject, facts->go ? " (Go)" : "");
    else if (is_musl(facts->interpreter))
        doctor_say(doctor, OFF, check, "use a build for glibc",
                   "%s is for musl (%s): the shim is for glibc", subject, facts->interpreter);
    else if (access(facts->interpreter, R_OK) < 0)
        doctor_say(doctor, OFF, check, "install its C library, or use another build",
                   "%s needs the loader %s, which is not here", subject, facts->interpreter);
    else if (rights != NULL)
        doctor_say(doctor, OFF, check, "run it with rights that you have already",
                   "%s: %s, so its loader ignores LD_PRELOAD", subject, rights);
    else
        judge_dynamic(doctor, check, path, subject, facts);
}

void doctor_command(struct doctor *doctor, const char *name)
{
    char check[PATH_MAX + 16], path[PATH_MAX], first[PATH_MAX], subject[2 * PATH_MAX + 16];
    struct elf_facts facts;
    int error;

    snprintf(check, sizeof(check), "command %s", name);
    if (!resolve(path, name)) {
        doctor_say(doctor, OFF, check, "name a directory, or a program in PATH or by its path",
                   "is neither a directory nor a program that can be run");
        return;
    }
    memcpy(first, path, sizeof(first));
    error = elf_read(&facts, path);
    for (int i = 0; i < SCRIPTS && error == -ENOEXEC; i++) {
        if (follow(path) != 0)
            break;
        error = elf_read(&facts, path);
    }
    if (strcmp(first, path) == 0)
        snprintf(subject, sizeof(subject), "%s", path);
    else
        snprintf(subject, sizeof(subject), "%s (run by %s)", first, path);
    if (error == 0)
        judge(doctor, check, path, subject, &facts);
    else if (error == -ENOEXEC)
        doctor_say(doctor, OFF, check, "name a program, or a script whose interpreter is there",
                   "%s is no program and no script that can be run", subject);
    else
        doctor_say(doctor, SLOWER, check, "", "%s cannot be read (%s): it may be captured or not",
                   subject, strerror(-error));
}
