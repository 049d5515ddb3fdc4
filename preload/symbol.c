/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symbol.c -- dlsym behind ours
 *
 * The shim exports dlsym, because that is how CUDA's runtime reaches its driver
 * (hooks_cuda.c). So it cannot ask by that name itself, and looks into the tables of the
 * libraries behind it, in their order, as the linker would. Formats: the ELF gABI, "Dynamic
 * Section" and "Hash Table"; DT_GNU_HASH as glibc's dl-lookup.c has it.
 *
 * Where dlsym is in a library that the program has not loaded (glibc before 2.34), libc's own
 * way to it is taken, which is gone since.
 */
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "real.h"

#define NAME "dlsym"

struct search {
    bool behind; /* the shim has been passed */
    symbol_function *found;
};

/* glibc has made pointers of these, others have not. */
static const void *at(const struct dl_phdr_info *object, ElfW(Addr) value)
{
    return (const void *)(value < object->dlpi_addr ? object->dlpi_addr + value : value);
}

static bool is(const ElfW(Sym) * symbol, const char *strings)
{
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           strcmp(strings + symbol->st_name, NAME) == 0;
}

static const ElfW(Sym) *
    by_gnu_hash(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings)
{
    uint32_t hash = 5381, buckets = table[0], first = table[1];
    const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t number;

    for (const char *c = NAME; *c != '\0'; c++)
        hash = hash * 33 + (uint8_t)*c;
    number = buckets != 0 ? bucket[hash % buckets] : 0;
    if (number < first)
        return NULL;
    for (;; number++) {
        uint32_t here = chain[number - first];
        if ((here | 1) == (hash | 1) && is(&symbols[number], strings))
            return &symbols[number];
        if (here & 1)
            return NULL;
    }
}

static const ElfW(Sym) *
    by_hash(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings)
{
    for (uint32_t number = 1; number < table[1]; number++)
        if (is(&symbols[number], strings))
            return &symbols[number];
    return NULL;
}

static int look(struct dl_phdr_info *object, size_t size, void *argument)
{
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Sym) *symbols = NULL, *symbol = NULL;
    const uint32_t *gnu = NULL, *hash = NULL;
    const char *strings = NULL;
    struct search *search = argument;
    bool ours = false;

    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)start;
        if (part->p_type == PT_LOAD)
            ours |= (uintptr_t)look - start < part->p_memsz;
    }
    if (ours || !search->behind || dynamic == NULL) {
        search->behind |= ours;
        return 0;
    }
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            symbols = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_STRTAB:
            strings = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            gnu = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_HASH:
            hash = at(object, dynamic->d_un.d_ptr);
            break;
        }
    if (symbols == NULL || strings == NULL)
        return 0;
    if (gnu != NULL)
        symbol = by_gnu_hash(gnu, symbols, strings);
    else if (hash != NULL)
        symbol = by_hash(hash, symbols, strings);
    if (symbol == NULL)
        return 0;
    search->found = (symbol_function *)(object->dlpi_addr + symbol->st_value);
    return 1;
}

static void *nothing(void *library, const char *name)
{
    return NULL;
}

/* Jumped to by ours, with its caller's return address. */
__attribute__((visibility("hidden"))) symbol_function *_Atomic portus_real_dlsym;

symbol_function *real_dlsym(void)
{
    struct search search = {false, NULL};

    if (portus_real_dlsym == NULL) {
        dl_iterate_phdr(look, &search);
        if (search.found == NULL)
            search.found = (symbol_function *)(uintptr_t)real_loader(NAME);
        portus_real_dlsym = search.found != NULL ? search.found : nothing;
    }
    return portus_real_dlsym;
}

void *real_symbol(void *library, const char *name)
{
    return real_dlsym()(library, name);
}
