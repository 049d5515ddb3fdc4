/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio.c -- fwrite large and small, fseek to patch, fprintf, buffers of each kind, read back
 * run: captures=3
 *
 * Right: what stdio buffers and what it writes directly stand in the program's order.
 */
#include "helper.h"

static void work(const char *name, const char *how, char *buffer, int kind, size_t size)
{
    char *p = bytes(4 * MIB, 1), *q = malloc(4 * MIB);
    FILE *f = fopen(name, how);
    check(f != NULL);
    if (kind >= 0)
        check(setvbuf(f, buffer, kind, size) == 0);
    check(fwrite("head", 1, 4, f) == 4);
    check(fwrite(p, 1, BIG, f) == BIG);
    check(fprintf(f, "step %d\n", 7) == 7 && fputc('c', f) == 'c' && fputs("text", f) >= 0);
    for (int i = 0; i < 500; i++)
        check(fwrite(p + i, 1, 301, f) == 301);
    printf("%s: %ld", name, ftell(f));
    check(fseek(f, 0, SEEK_SET) == 0 && fwrite("HEAD", 4, 1, f) == 1);
    check(fseek(f, 0, SEEK_END) == 0);
    check(fwrite(p + 5, 1, 2 * MIB, f) == 2 * MIB && fwrite(p, 100, 7, f) == 7);
    printf(" %ld", ftell(f));
    check(fseeko(f, -50, SEEK_CUR) == 0 && fwrite(p + 3, 1, MIB + 1, f) == MIB + 1);
    check(fflush(f) == 0);
    struct stat st;
    must(fstat(fileno(f), &st));
    printf(" %lld", (long long)st.st_size);
    check(fwrite_unlocked(p, 1, 9, f) == 9 && putc_unlocked('u', f) == 'u');
    fpos_t place;
    check(fgetpos(f, &place) == 0 && fwrite(p, 1, 77, f) == 77 && fsetpos(f, &place) == 0);
    check(fwrite("back", 1, 4, f) == 4);
    if (strchr(how, '+')) {
        rewind(f);
        check(fread(q, 1, 2 * MIB, f) == 2 * MIB && memcmp(q + 4, p, MIB) == 0);
        printf(" %016llx", (unsigned long long)digest(q, 2 * MIB, 0));
        check(fseek(f, 0, SEEK_CUR) == 0 && fwrite(p, 1, MIB, f) == MIB);
    }
    printf(" %d\n", fclose(f));
    show(name);
    free(p), free(q);
}

int main(void)
{
    static char room[300000];
    work("a.ckpt", "wb", NULL, -1, 0);
    work("b.ckpt", "wb+", NULL, -1, 0);
    work("c.ckpt", "wb", NULL, _IONBF, 0);
    work("d.ckpt", "w+", room, _IOFBF, sizeof room);
    work("e.ckpt", "we", NULL, _IOLBF, 4096);
    work("f.ckpt", "wx", room, _IOFBF, 1);
    FILE *f = fopen64("g.ckpt", "w");
    char *p = bytes(BIG, 2);
    check(f && fwrite(p, 1, BIG, f) == BIG);
    f = freopen("h.ckpt", "w", f);
    check(f && fwrite(p, BIG, 1, f) == 1 && fwrite("x", 1, 1, f) == 1);
    return fclose(f);
}
