/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_number.c -- a file is written by number, and then by a stream that stands before its end
 * run: captures=8
 *
 * What stdio writes by itself is seen by nobody. Right: the later write wins, whichever
 * function of stdio makes it, and however the stream came to its number.
 */
#include "helper.h"
#include <stdbool.h>

static char *p;
static const size_t whole = 12 * MIB;

/* Something of stdio's own, of about 20 bytes. */
static void text(FILE *f, int how)
{
    switch (how) {
    case 0:
        check(fprintf(f, "a text of %d bytes", 20) > 0);
        break;
    case 1:
        check(fputs("as long as the other", f) >= 0);
        break;
    case 2:
        for (int i = 0; i < 20; i++)
            check(putc_unlocked('0' + i, f) == '0' + i);
        break;
    default:
        check(fwrite("with fwrite, as long", 1, 20, f) == 20);
    }
}

static void named(char *name, const char *what, int how)
{
    snprintf(name, 30, "%s%d.ckpt", what, how);
}

/* The place stays before the end: a pwrite, or a seek back. */
static void placed(int how, bool back)
{
    char name[30];
    named(name, back ? "back" : "placed", how);
    FILE *f = fopen(name, how % 2 ? "w" : "w+");
    check(f != NULL);
    setbuf(f, NULL);
    int fd = fileno(f);
    if (back) {
        put(fd, p, whole);
        must(lseek(fd, -30, SEEK_CUR));
    } else {
        must(lseek(fd, (off_t)whole - 30, SEEK_SET));
        put_at(fd, p, whole, 0);
    }
    text(f, how);
    check(fclose(f) == 0);
    show(name);
}

/* The stream is there before the file, whose description is then put under its number. */
static void beneath(int how, FILE *f)
{
    char name[30];
    named(name, "beneath", how);
    fflush(f);
    int fd = create(name), kept = must(dup(fileno(f)));
    put(fd, p, whole);
    must(lseek(fd, (off_t)whole - 30, SEEK_SET));
    must(dup2(fd, fileno(f)));
    text(f, how);
    fflush(f);
    must(dup2(kept, fileno(f)));
    close(kept), close(fd);
    show(name);
}

int main(void)
{
    p = bytes(whole, 1);
    for (int how = 0; how < 4; how++)
        placed(how, false), placed(how, true);
    FILE *null = fopen("/dev/null", "w");
    setbuf(null, NULL), setbuf(stdout, NULL);
    for (int how = 0; how < 4; how++)
        beneath(how, how % 2 ? null : stdout);

    FILE *f = fopen("stale.txt", "w"); /* its number goes, and comes again */
    setbuf(f, NULL);
    int fd = fileno(f);
    must(close(fd));
    check(create("stale.ckpt") == fd);
    must(lseek(fd, (off_t)whole - 30, SEEK_SET));
    put_at(fd, p, whole, 0);
    text(f, 0);
    check(fclose(f) == 0);
    show("stale.ckpt");

    f = fopen("exit.ckpt", "w"); /* what is left is written when the program ends */
    text(f, 1);
    put_at(fileno(f), p, whole, 0);
    return 0;
}
