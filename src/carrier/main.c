/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c -- portus-carrier: the program that an agent starts for a store on another machine
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "carrier/carrier.h"
#include "common/env.h"
#include "common/log.h"
#include "common/scribe.h"
#include "portus/portus.h"

int main(int argc, char **argv)
{
    static struct portus_env env;
    struct rlimit limit = {0};
    socklen_t length = sizeof(int);
    int type;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("portus-carrier %s\n", PORTUS_VERSION);
        return 0;
    }
    if (argc != 4 || getsockopt(atoi(argv[1]), SOL_SOCKET, SO_TYPE, &type, &length) < 0 ||
        type != SOCK_SEQPACKET) {
        fprintf(stderr, "usage: portus-carrier DESCRIPTOR NUMBER STORES\n"
                        "started by portus-agent where PORTUS_STORE is on another machine\n");
        return 2;
    }
    portus_env_load(&env);
    portus_log_setup((enum portus_level)env.log_level,
                     env.log_file[0] != '\0' ? env.log_file : NULL, "portus-carrier: ");
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &limit); /* a key is nothing for a file */
    fcntl(atoi(argv[1]), F_SETFD, FD_CLOEXEC);
    portus_scribes_begin();
    return carrier_run(atoi(argv[1]), argv[3], (unsigned)strtoul(argv[2], NULL, 10), env.key);
}
