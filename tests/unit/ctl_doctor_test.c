/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl_doctor_test.c -- what portusctl doctor says of programs, scripts and directories
 *
 * Runs the portusctl of this build (B) on programs that are made here. Other lines
 * than those of the command or directory are not looked at: they are this machine's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/portus-doctor-test-XXXXXX";
static char ctl[PATH_MAX];
static char text[65536];
static int status;

static int set_up(void **state)
{
    const char *build = getenv("B");
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/portusctl", build != NULL ? build : "build");
    if (realpath(path, ctl) == NULL || mkdtemp(root) == NULL || chdir(root) != 0)
        ctl[0] = '\0';
    unsetenv("PORTUS");
    unsetenv("PORTUS_SHARED");
    unsetenv("LD_PRELOAD");
    setenv("PORTUS_JOB", root, 1); /* no agent of anybody */
    return 0;
}

static int tear_down(void **state)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    return ctl[0] != '\0' ? system(command) : 0;
}

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

/* Runs portusctl with these arguments (for the shell): `text` and `status`. */
static void run(const char *arguments)
{
    char command[PATH_MAX + 512];
    FILE *output;

    if (ctl[0] == '\0')
        skip(); /* portusctl is not built */
    snprintf(command, sizeof(command), "%s %s 2>&1", ctl, arguments);
    output = popen(command, "r");
    assert_non_null(output);
    text[fread(text, 1, sizeof(text) - 1, output)] = '\0';
    status = pclose(output);
    assert_true(WIFEXITED(status));
    status = WEXITSTATUS(status);
}

/* Whether some line begins with `begin` and contains `part`. */
static bool has_line(const char *begin, const char *part)
{
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");

        if (strncmp(line, begin, strlen(begin)) == 0 &&
            memmem(line, length, part, strlen(part)) != NULL)
            return true;
    }
    print_message("no line \"%s...%s\" in:\n%s", begin, part, text);
    return false;
}

static void write_script(const char *name, const char *content)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    assert_int_equal(chmod(name, 0755), 0);
}

static void dynamic_program(void **state)
{
    run("doctor /bin/sh");
    assert_true(has_line("ok      command /bin/sh: ", "is dynamic, needs glibc 2."));
    run("doctor sh");
    assert_true(has_line("ok      command sh: ", "/sh is dynamic"));
}

static void static_program(void **state)
{
    run("version");
    write_script("static.c", "int main(void) { return 0; }\n");
    if (system("cc -static -o static static.c 2>/dev/null") != 0)
        skip(); /* no static libc */
    run("doctor ./static");
    assert_true(has_line("off     command ./static: ", "is static"));
    assert_int_equal(status, 2);
    write_script("by_static", "#!./static -x\n");
    run("doctor ./by_static");
    assert_true(has_line("off     command ./by_static: ", "(run by ./static) is static"));
}

static void scripts(void **state)
{
    run("version");
    write_script("plain", "#! /bin/sh -e\nexit 0\n");
    write_script("by_env", "#!/usr/bin/env -S A=b sh -e\n");
    write_script("twice", "#!./plain\n");
    write_script("loop", "#!./loop\n");
    write_script("missing", "#!/nonexistent/interpreter\n");
    write_script("empty", "");
    write_script("bare", "#!\n");
    run("doctor ./plain ./by_env ./twice ./loop ./missing ./empty ./bare");
    assert_true(has_line("ok      command ./plain: ", "(run by /bin/sh) is dynamic"));
    assert_true(has_line("ok      command ./by_env: ", "/sh) is dynamic"));
    assert_true(has_line("ok      command ./twice: ", "(run by /bin/sh) is dynamic"));
    assert_true(has_line("off     command ./loop: ", "no script that can be run"));
    assert_true(has_line("off     command ./missing: ", "no script that can be run"));
    assert_true(has_line("off     command ./empty: ", "no script that can be run"));
    assert_true(has_line("off     command ./bare: ", "no script that can be run"));
}

static void other_programs(void **state)
{
    run("version");
    shell("cp /bin/sh foreign; chmod 755 foreign");
    shell("printf '\\001\\001' | dd of=foreign bs=1 seek=18 conv=notrunc 2>/dev/null");
    shell("head -c 200 /bin/sh >cut; chmod 755 cut");
    shell("{ printf '\\177ELF\\002\\001\\001'; head -c 5000 /dev/urandom; } >junk; chmod 755 junk");
    shell("mkfifo fifo; chmod 755 fifo; echo x >not_executable");
    run("doctor ./foreign ./cut ./junk ./fifo ./not_executable nonexistent-program ''");
    assert_true(has_line("off     command ./foreign: ", "is for another machine"));
    assert_true(has_line("off     command ./cut: ", "is no program"));
    assert_true(has_line("off     command ./junk: ", ""));
    assert_true(has_line("off     command ./fifo: ", "is neither"));
    assert_true(has_line("off     command ./not_executable: ", "is neither"));
    assert_true(has_line("off     command nonexistent-program: ", "is neither"));
    assert_int_equal(status, 2);
}

static void names_are_escaped(void **state)
{
    run("version");
    shell("printf 'junk' >\"$(printf 'a\\033[31m')\"; chmod 755 a*31m");
    run("doctor ./a*31m");
    assert_null(strchr(text, '\x1b'));
    assert_true(has_line("off     command ./a\\x1b[31m: ", ""));
    run("doctor --json ./a*31m");
    assert_null(strchr(text, '\x1b'));
    assert_non_null(
        strstr(text, "\"check\": \"command ./a\\u001b[31m\",\n      \"state\": \"off\""));
    assert_non_null(strstr(text, "\n  \"verdict\": \"off\"\n}\n"));
}

static void a_directory_is_left_as_it_was(void **state)
{
    run("version");
    shell("mkdir directory");
    run("doctor directory");
    assert_true(has_line("", "  directory directory: "));
    shell("test -z \"$(ls -A directory)\"");
    run("doctor /proc");
    assert_true(has_line("off     directory /proc: ", ""));
    assert_int_equal(status, 2);
}

static void off_in_the_environment(void **state)
{
    setenv("PORTUS", "off", 1);
    run("doctor");
    unsetenv("PORTUS");
    assert_true(has_line("off     environment: ", "PORTUS=off"));
    assert_int_equal(status, 2);
}

static void usage(void **state)
{
    run("");
    assert_int_equal(status, 2);
    run("nonsense");
    assert_int_equal(status, 2);
    assert_true(has_line("portusctl: no command is named nonsense", ""));
    run("status --nonsense");
    assert_int_equal(status, 2);
    run("status operand");
    assert_int_equal(status, 2);
    run("wait --timeout soon");
    assert_int_equal(status, 2);
    run("wait --timeout");
    assert_int_equal(status, 2);
    run("help wait");
    assert_int_equal(status, 0);
    run("help nonsense");
    assert_int_equal(status, 2);
    run("--version");
    assert_int_equal(status, 0);
    run("status >/dev/full");
    assert_int_equal(status, 1);
}

static void without_an_agent(void **state)
{
    run("status");
    assert_int_equal(status, 0);
    assert_true(
        has_line("no agent runs for this user and container: nothing is being captured", ""));
    run("status --json");
    assert_int_equal(status, 0);
    assert_string_equal(text, "{\n  \"agent\": null,\n  \"sessions\": [],\n  \"files\": []\n}\n");
    run("wait");
    assert_int_equal(status, 0);
    run("wait /nonexistent");
    assert_int_equal(status, 1);
    assert_true(has_line("portusctl: wait: /nonexistent: No such file", ""));
    run("wait --timeout 9 /bin/sh .");
    assert_int_equal(status, 0);
    run("off");
    assert_int_equal(status, 1);
    run("on");
    assert_int_equal(status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_program),
        cmocka_unit_test(static_program),
        cmocka_unit_test(scripts),
        cmocka_unit_test(other_programs),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(a_directory_is_left_as_it_was),
        cmocka_unit_test(off_in_the_environment),
        cmocka_unit_test(usage),
        cmocka_unit_test(without_an_agent),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
