// SPDX-License-Identifier: BSD-3-Clause
/*
 * elf.c -- what kind of program a file is
 *
 * By libelf, which checks offsets and sizes against the file. The file is read,
 * not mapped, since it may be cut while we look. Of a file without section
 * headers the needed glibc and the Go compiler are not found: that is not worse
 * than not to have asked.
 */
#include "ctl/elf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTIONS_MAX 4096
#define NEEDS_MAX 4096

bool glibc_version(unsigned version[2], const char *text)
{
    char rest;

    if (strncmp(text, "GLIBC_", 6) == 0)
        text += 6;
    return isdigit((unsigned char)text[0]) &&
           sscanf(text, "%4u.%4u%c", &version[0], &version[1], &rest) >= 2;
}

static void take_version(struct elf_facts *facts, const char *name)
{
    unsigned version[2];

    if (name == NULL || strncmp(name, "GLIBC_", 6) != 0 || !glibc_version(version, name))
        return;
    if (version[0] > facts->glibc[0] ||
        (version[0] == facts->glibc[0] && version[1] > facts->glibc[1]))
        memcpy(facts->glibc, version, sizeof(version));
}

/* The versions of symbols that the file needs from its libraries. */
static void read_needs(struct elf_facts *facts, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    int offset = 0, left = NEEDS_MAX;

    while (data != NULL && left-- > 0) {
        GElf_Verneed need;
        int at;

        if (gelf_getverneed(data, offset, &need) == NULL)
            return;
        at = offset + (int)need.vn_aux;
        for (unsigned i = 0; i < need.vn_cnt && left-- > 0; i++) {
            GElf_Vernaux version;

            if (at < 0 || gelf_getvernaux(data, at, &version) == NULL)
                return;
            take_version(facts, elf_strptr(elf, header->sh_link, version.vna_name));
            at += (int)version.vna_next;
        }
        offset += (int)need.vn_next;
        if (need.vn_next == 0 || offset < 0)
            return;
    }
}

static void read_sections(struct elf_facts *facts, Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names;
    unsigned left = SECTIONS_MAX;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    while ((section = elf_nextscn(elf, section)) != NULL && left-- > 0) {
        GElf_Shdr header;
        const char *name;

        if (gelf_getshdr(section, &header) == NULL)
            continue;
        name = elf_strptr(elf, names, header.sh_name);
        if (name != NULL && (!strcmp(name, ".note.go.buildid") || !strcmp(name, ".go.buildinfo")))
            facts->go = true;
        if (header.sh_type == SHT_GNU_verneed)
            read_needs(facts, elf, section, &header);
    }
}

static int read_segments(struct elf_facts *facts, Elf *elf, int fd)
{
    size_t count;

    if (elf_getphdrnum(elf, &count) != 0)
        return -ENOEXEC;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        ssize_t length;

        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            return -ENOEXEC;
        if (segment.p_type == PT_DYNAMIC)
            facts->dynamic = true;
        if (segment.p_type != PT_INTERP)
            continue;
        if (segment.p_filesz == 0 || segment.p_filesz >= sizeof(facts->interpreter) ||
            segment.p_offset > INT64_MAX)
            return -ENOEXEC;
        length = pread(fd, facts->interpreter, segment.p_filesz, (off_t)segment.p_offset);
        if (length != (ssize_t)segment.p_filesz)
            return -ENOEXEC;
        facts->interpreter[length] = '\0';
    }
    return 0;
}

static int read_elf(struct elf_facts *facts, int fd)
{
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr header;
    int error = -ENOEXEC;

    if (elf == NULL)
        return -ENOEXEC;
    if (elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) != NULL) {
        facts->bits = gelf_getclass(elf) == ELFCLASS64 ? 64 : 32;
        facts->machine = header.e_machine;
        facts->program = header.e_type == ET_EXEC || header.e_type == ET_DYN;
        error = read_segments(facts, elf, fd);
        if (error == 0)
            read_sections(facts, elf);
    }
    elf_end(elf);
    return error;
}

/* A regular file, so that a FIFO or device cannot hang us. */
static int open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return -ENOEXEC;
    }
    return fd;
}

int elf_read(struct elf_facts *facts, const char *path)
{
    int fd = open_regular(path), error = -ENOEXEC;

    memset(facts, 0, sizeof(*facts));
    if (fd < 0)
        return fd;
    if (elf_version(EV_CURRENT) != EV_NONE)
        error = read_elf(facts, fd);
    close(fd);
    return error;
}

/* Cuts the word at *text, moves *text behind it. */
static char *word(char **text)
{
    char *begin = *text + strspn(*text, " \t"), *end = begin + strcspn(begin, " \t");

    *text = end;
    if (*end != '\0')
        *(*text)++ = '\0';
    return begin;
}

int script_read(const char *path, char interpreter[PATH_MAX], char argument[PATH_MAX])
{
    char line[256]; /* the kernel takes no more */
    ssize_t length;
    char *text = line + 2;
    int fd = open_regular(path);

    interpreter[0] = argument[0] = '\0';
    if (fd < 0)
        return fd;
    length = pread(fd, line, sizeof(line) - 1, 0);
    close(fd);
    if (length < 0)
        return -EIO;
    line[length] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return -ENOEXEC;
    line[strcspn(line, "\n")] = '\0';
    snprintf(interpreter, PATH_MAX, "%s", word(&text));
    text += strspn(text, " \t");
    for (size_t end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]); end--)
        text[end - 1] = '\0';
    snprintf(argument, PATH_MAX, "%s", text);
    return interpreter[0] != '\0' ? 0 : -ENOEXEC;
}
