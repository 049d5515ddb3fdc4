// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor.c -- portusctl doctor: whether checkpoints can be captured here
 *
 * The order of the examinations, their lines and the verdict. The examinations
 * are in doctor_*.c. The verdict is what the worst line says, with one exception:
 * of several directories (or commands) some may be off, which is slower on the
 * whole; it is off only if all of them are.
 */
#include "ctl/doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/address.h"
#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/text.h"

#define SAYS 1536

struct check {
    enum verdict state;
    char *name, *says, *todo;
};

static char *duplicate(const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        complain("doctor: %s", strerror(ENOMEM));
        exit(CTL_FAILED);
    }
    return copy;
}

void doctor_say(struct doctor *doctor, enum verdict state, const char *check, const char *todo,
                const char *format, ...)
{
    char says[SAYS];
    va_list list;

    va_start(list, format);
    vsnprintf(says, sizeof(says), format, list);
    va_end(list);
    doctor->checks = reallocarray(doctor->checks, doctor->count + 1, sizeof(struct check));
    if (doctor->checks == NULL) {
        complain("doctor: %s", strerror(ENOMEM));
        exit(CTL_FAILED);
    }
    doctor->checks[doctor->count++] = (struct check){
        .state = state,
        .name = duplicate(check),
        .says = duplicate(says),
        .todo = duplicate(todo),
    };
    if (state > doctor->scope)
        doctor->scope = state;
}

static bool is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/*
 * Examines the operands that are directories, or the others. Returns the verdict
 * on all of them; WORKS if there is none.
 */
static enum verdict each(struct doctor *doctor, char **operands, int count, bool directories)
{
    enum verdict worst = WORKS, best = OFF;
    int examined = 0;

    for (int i = 0; i < count; i++) {
        if (portus_address_is(operands[i]) || is_directory(operands[i]) != directories)
            continue;
        doctor->scope = WORKS;
        if (directories)
            doctor_directory(doctor, operands[i]);
        else
            doctor_command(doctor, operands[i]);
        if (doctor->scope > worst)
            worst = doctor->scope;
        if (doctor->scope < best)
            best = doctor->scope;
        examined++;
    }
    if (examined == 0)
        return WORKS;
    return worst == OFF && best != OFF ? SLOWER : worst;
}

static enum verdict examine(struct doctor *doctor, char **operands, int count)
{
    static char *here[] = {"."};
    enum verdict verdict, part;
    bool any = false, stores = false;

    doctor->scope = WORKS;
    doctor_kernel(doctor);
    doctor_calls(doctor);
    doctor_limits(doctor);
    doctor_memory(doctor);
    doctor_environment(doctor);
    doctor_shim(doctor);
    doctor_agent(doctor);
    doctor_preload(doctor);
    for (int i = 0; i < count; i++)
        if (portus_address_is(operands[i])) {
            doctor_store(doctor, operands[i]);
            stores = true;
        }
    if (!stores && portus_address_is(doctor->env->store))
        doctor_store(doctor, doctor->env->store);
    verdict = doctor->scope;

    for (int i = 0; i < count; i++)
        any = any || is_directory(operands[i]);
    part = any ? each(doctor, operands, count, true) : each(doctor, here, 1, true);
    if (part > verdict)
        verdict = part;
    part = each(doctor, operands, count, false);
    return part > verdict ? part : verdict;
}

static const char *const words[] = {"works", "slower", "off"};

static const char *state_word(enum verdict state)
{
    return state == WORKS ? "ok" : words[state];
}

static void print(const struct doctor *doctor, enum verdict verdict)
{
    static const char *const meaning[] = {
        "checkpoints are captured",
        "something will not be captured, or less well: see above",
        "nothing can be captured; programs run as they do without Portus",
    };
    char safe[TEXT_ROOM(SAYS)];

    for (unsigned i = 0; i < doctor->count; i++) {
        const struct check *check = &doctor->checks[i];

        printf("%-6s  %s: ", state_word(check->state), text_safe(safe, sizeof(safe), check->name));
        printf("%s\n", text_safe(safe, sizeof(safe), check->says));
        if (check->todo[0] != '\0')
            printf("        do: %s\n", text_safe(safe, sizeof(safe), check->todo));
    }
    printf("\n%s: %s\n", words[verdict], meaning[verdict]);
}

static void write_json(const struct doctor *doctor, enum verdict verdict)
{
    struct json json;

    json_begin(&json, stdout);
    json_open_array(&json, "checks");
    for (unsigned i = 0; i < doctor->count; i++) {
        const struct check *check = &doctor->checks[i];

        json_open_object(&json, NULL);
        json_text(&json, "check", check->name);
        json_text(&json, "state", state_word(check->state));
        json_text(&json, "says", check->says);
        json_text(&json, "do", check->todo);
        json_close(&json);
    }
    json_close(&json);
    json_text(&json, "verdict", words[verdict]);
    json_end(&json);
}

int doctor_main(int argc, char **argv)
{
    static struct doctor doctor;
    struct options options;
    enum verdict verdict;
    int operand = options_parse(&options, argc, argv, OPTION_JSON | OPTION_JOB);

    if (operand < 0)
        return CTL_USAGE;
    doctor.env = options.env;
    doctor.wrong_env = options.wrong_env;
    doctor.job = options.job;
    doctor.has_shim = install_shim(doctor.shim);
    verdict = examine(&doctor, argv + operand, argc - operand);
    if (options.json)
        write_json(&doctor, verdict);
    else
        print(&doctor, verdict);
    for (unsigned i = 0; i < doctor.count; i++) {
        free(doctor.checks[i].name);
        free(doctor.checks[i].says);
        free(doctor.checks[i].todo);
    }
    free(doctor.checks);
    return (int)verdict;
}
