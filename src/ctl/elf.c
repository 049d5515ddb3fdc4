// SPDX-License-Identifier: BSD-3-Clause
/*
 * elf.c -- what kind of program a file is
 *
 * The file is read, not mapped, since it may be cut while we look; each offset and
 * size in it is compared with what was read. Of one for another machine only that is
 * looked at: nothing else of it matters. Of a file without section headers the
 * needed glibc and the Go compiler are not found: that is not worse than not to have
 * asked.
 */
#include "ctl/elf.h"

#include <ctype.h>
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 4096
#define SECTIONS_MAX 4096
#define NEEDS_MAX 4096
#define TABLE_MAX (16u << 20) /* bytes of one section that are read */

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define OWN_ORDER ELFDATA2LSB
#else
#define OWN_ORDER ELFDATA2MSB
#endif

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

static bool read_at(int fd, void *out, size_t length, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, out, length, (off_t)offset) == (ssize_t)length;
}

/* A section's bytes and a NUL behind them, for free(); NULL: there are none, or too many. */
static char *read_section(int fd, const Elf64_Shdr *section)
{
    char *bytes = NULL;

    if (section->sh_type != SHT_NOBITS && section->sh_size != 0 && section->sh_size <= TABLE_MAX)
        bytes = malloc(section->sh_size + 1);
    if (bytes == NULL || !read_at(fd, bytes, section->sh_size, section->sh_offset)) {
        free(bytes);
        return NULL;
    }
    bytes[section->sh_size] = '\0';
    return bytes;
}

/* The versions of symbols that the file needs from its libraries; names has length bytes. */
static void read_needs(struct elf_facts *facts, const char *needs, uint64_t size, const char *names,
                       uint64_t length)
{
    uint64_t offset = 0;
    int left = NEEDS_MAX;

    while (left-- > 0 && offset <= size && size - offset >= sizeof(Elf64_Verneed)) {
        Elf64_Verneed need;
        uint64_t at;

        memcpy(&need, needs + offset, sizeof(need));
        at = offset + need.vn_aux;
        for (unsigned i = 0; i < need.vn_cnt && left-- > 0; i++) {
            Elf64_Vernaux version;

            if (at > size || size - at < sizeof(version))
                return;
            memcpy(&version, needs + at, sizeof(version));
            if (version.vna_name < length)
                take_version(facts, names + version.vna_name);
            at += version.vna_next;
        }
        if (need.vn_next == 0)
            return;
        offset += need.vn_next;
    }
}

static void read_sections(struct elf_facts *facts, int fd, const Elf64_Ehdr *header)
{
    size_t count = header->e_shnum;
    bool needed = false; /* a file has one such table; more would only cost time */
    Elf64_Shdr *sections;
    char *names = NULL;

    if (count == 0 || count > SECTIONS_MAX || header->e_shentsize != sizeof(*sections))
        return;
    sections = malloc(count * sizeof(*sections));
    if (sections == NULL || !read_at(fd, sections, count * sizeof(*sections), header->e_shoff))
        goto end;
    if (header->e_shstrndx < count)
        names = read_section(fd, &sections[header->e_shstrndx]);
    for (size_t i = 0; i < count; i++) {
        const Elf64_Shdr *section = &sections[i];
        const char *name = "";
        char *needs, *words;

        if (names != NULL && section->sh_name < sections[header->e_shstrndx].sh_size)
            name = names + section->sh_name;
        if (!strcmp(name, ".note.go.buildid") || !strcmp(name, ".go.buildinfo"))
            facts->go = true;
        if (section->sh_type != SHT_GNU_verneed || section->sh_link >= count || needed)
            continue;
        needed = true;
        needs = read_section(fd, section);
        words = read_section(fd, &sections[section->sh_link]);
        if (needs != NULL && words != NULL)
            read_needs(facts, needs, section->sh_size, words, sections[section->sh_link].sh_size);
        free(needs);
        free(words);
    }
    free(names);

end:
    free(sections);
}

static int read_segments(struct elf_facts *facts, int fd, const Elf64_Ehdr *header)
{
    if (header->e_phnum > SEGMENTS_MAX ||
        (header->e_phnum != 0 && header->e_phentsize != sizeof(Elf64_Phdr)))
        return -ENOEXEC;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;

        if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return -ENOEXEC;
        if (segment.p_type == PT_DYNAMIC)
            facts->dynamic = true;
        if (segment.p_type != PT_INTERP)
            continue;
        if (segment.p_filesz == 0 || segment.p_filesz >= sizeof(facts->interpreter) ||
            !read_at(fd, facts->interpreter, segment.p_filesz, segment.p_offset))
            return -ENOEXEC;
        facts->interpreter[segment.p_filesz] = '\0';
    }
    return 0;
}

static int read_elf(struct elf_facts *facts, int fd)
{
    Elf64_Ehdr header; /* of a 32-bit file: no more than its first fields */
    int error;

    memset(&header, 0, sizeof(header));
    if (pread(fd, &header, sizeof(header), 0) < (ssize_t)sizeof(Elf32_Ehdr) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_VERSION] != EV_CURRENT ||
        (header.e_ident[EI_CLASS] != ELFCLASS64 && header.e_ident[EI_CLASS] != ELFCLASS32) ||
        (header.e_ident[EI_DATA] != ELFDATA2LSB && header.e_ident[EI_DATA] != ELFDATA2MSB))
        return -ENOEXEC;
    if (header.e_ident[EI_DATA] != OWN_ORDER) {
        header.e_type = __builtin_bswap16(header.e_type);
        header.e_machine = __builtin_bswap16(header.e_machine);
    }
    facts->bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    facts->machine = header.e_machine;
    facts->program = header.e_type == ET_EXEC || header.e_type == ET_DYN;
    if (header.e_ident[EI_DATA] != OWN_ORDER || facts->bits != 64)
        return 0;
    error = read_segments(facts, fd, &header);
    if (error == 0)
        read_sections(facts, fd, &header);
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
    int fd = open_regular(path), error;

    memset(facts, 0, sizeof(*facts));
    if (fd < 0)
        return fd;
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
