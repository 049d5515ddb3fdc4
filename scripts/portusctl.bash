# SPDX-License-Identifier: BSD-3-Clause
#
# portusctl.bash -- completion for bash: portusctl and portus-run
#
# Needs nothing but bash. `make install` puts it where the package bash-completion
# looks for it; otherwise: source portusctl.bash

_portusctl()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="status wait off on doctor pool ls versions diff restore complete verify pin unpin rm gc export import scrub key try top advise version help"
    local words=""

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    case $previous in
    --job | --timeout | --version | --objects | --pace | --kills | --interval | --mtbf | --stall | --drain | --restart | --plain | --files) return ;;
    --store | --to | --from)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    esac
    case ${COMP_WORDS[1]} in
    help)
        [ "$COMP_CWORD" -eq 2 ] && words=${commands% help}
        ;;
    status) words="--json --job --help" ;;
    wait) words="--timeout --job --help" ;;
    off | on) words="--timeout --job --help" ;;
    doctor) words="--json --job --help" ;;
    pool)
        words="--help"
        case ${COMP_WORDS[2]} in
        create) words="--objects --force --help" ;;
        check) words="--remove-damaged --help" ;;
        badblocks) words="--clear --help" ;;
        esac
        if [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "create info check resize badblocks" -- "$current")
            return
        fi
        ;;
    ls | versions) words="--store --long --json --help" ;;
    diff) words="--store --json --help" ;;
    export) words="--store --all --to --tar --help" ;;
    import) words="--store --all --tar --help" ;;
    scrub) words="--store --pace --background --help" ;;
    restore) words="--store --version --to --force --help" ;;
    complete) words="--store --list --extents --help" ;;
    verify | gc) words="--store --help" ;;
    pin | unpin | rm) words="--store --version --help" ;;
    key) words="--help" ;;
    try) words="--json --from --to --kills --timeout --help" ;;
    top) words="--once --interval --job --help" ;;
    advise) words="--json --mtbf --stall --drain --restart --plain --files --help" ;;
    version) words="--job --help" ;;
    esac
    case $current in
    -*) ;;
    *)
        case ${COMP_WORDS[1]} in
        wait | pool | ls | versions | diff | restore | complete | verify | pin | unpin | rm | export | import)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        doctor | try)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
            return
            ;;
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

_portus_run()
{
    local options="--summary --report --require --off --match --min-write --ring --log --help"
    local i=1

    options="$options --version"
    # Past our own options all belongs to the command, which has its own completion.
    while [ "$i" -lt "$COMP_CWORD" ]; do
        case ${COMP_WORDS[i]} in
        --match | --min-write | --ring | --log) i=$((i + 2)) ;;
        -*) i=$((i + 1)) ;;
        *) break ;;
        esac
    done
    COMPREPLY=()
    if [ "$i" -lt "$COMP_CWORD" ]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        fi
        return
    fi
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --log) options="error warn info debug" ;;
    --match | --min-write | --ring) return ;;
    esac
    case ${COMP_WORDS[COMP_CWORD]} in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "${COMP_WORDS[COMP_CWORD]}") ;;
    *)
        if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --log ]; then
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "${COMP_WORDS[COMP_CWORD]}")
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"
                compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        fi
        ;;
    esac
}

complete -F _portusctl portusctl
complete -F _portus_run portus-run
