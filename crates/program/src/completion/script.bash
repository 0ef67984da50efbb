# Completes the words of weft-link in bash. It asks the program itself, which knows its options.
_weft_link() {
    COMPREPLY=()
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" complete --bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _weft_link weft-link
