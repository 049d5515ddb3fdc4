// SPDX-License-Identifier: BSD-3-Clause
/*
 * key.c -- portusctl key: a new key, for a user of a store on another machine
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/text.h"
#include "transport/key.h"

int key_main(int argc, char **argv)
{
    char name[TEXT_ROOM(PATH_MAX)];
    struct options options;
    int operand = options_parse(&options, argc, argv, 0), error;

    if (operand < 0)
        return CTL_USAGE;
    if (argc - operand != 2) {
        complain("key: give NAME and FILE, for example alice ~/.portus.key");
        return CTL_USAGE;
    }
    if (!key_name_right(argv[operand])) {
        complain("key: %.64s: a name has letters, digits and ._-@, %d at most", argv[operand],
                 KEY_NAME - 1);
        return CTL_USAGE;
    }
    error = key_make(argv[operand], argv[operand + 1]);
    if (error != 0) {
        complain("key: %s: %s", argv[operand + 1],
                 error == -EEXIST ? "is there already, and may be in use: remove it first"
                                  : strerror(-error));
        return CTL_FAILED;
    }
    printf("%s: PORTUS_KEY names it; its line goes into the store's file of keys, too\n",
           text_safe(name, sizeof(name), argv[operand + 1]));
    return CTL_OK;
}
