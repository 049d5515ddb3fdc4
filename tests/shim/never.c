/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * never.c -- a program that writes no checkpoint: logs, small files, pipes, a large other file
 * run: untouched captures=0 modes=default
 *
 * Right: no thread, no descriptor, no agent, not a word, no child, no handler.
 */
#include "helper.h"
#include <dirent.h>

static void count(const char *directory)
{
    int n = 0, highest = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            n++, highest = atoi(e->d_name) > highest ? atoi(e->d_name) : highest;
    closedir(d);
    printf("%s: %d", directory, n);
    printf(strstr(directory, "fd") ? ", highest %d\n" : "\n", highest);
}

int main(void)
{
    char *p = bytes(BIG, 1), name[32];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "%d.txt", i);
        save(name, (size_t)i * 1000, 1);
    }
    save("video.mp4", BIG, 1);
    save("small.ckpt", 1000, 1);
    save("gpu.log", 2 * BIG, 2);
    int log = must(open("log.ckpt", O_CREAT | O_APPEND | O_WRONLY, 0644));
    put(log, p, BIG);
    FILE *f = fopen("text", "w");
    for (int i = 0; i < 10000; i++)
        fprintf(f, "line %d\n", i);
    fclose(f);
    must(rename("0.txt", "zero.txt"));
    must(unlink("1.txt"));
    printf("%d\n", system("true"));
    f = popen("cat", "w");
    fwrite("piped\n", 1, 6, f);
    fflush(stdout);
    pclose(f);
    count("/proc/self/task");
    count("/proc/self/fd");
    struct sigaction action;
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("handler of signal %d\n", i);
    errno = 0;
    pid_t child = waitpid(-1, NULL, WNOHANG);
    printf("%d %d\n", child, errno);
    return 0;
}
