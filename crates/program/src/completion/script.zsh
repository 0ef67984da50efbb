#compdef weft-link
# Completes the words of weft-link in zsh. It asks the program itself, which knows its options.
_weft_link() {
    local -a found folders
    local text help
    while IFS=$'\t' read -r text help; do
        case $text in
            # After a folder comes what is in it, and no space.
            */) folders+=("$text") ;;
            *) found+=("${text//:/\\:}${help:+:$help}") ;;
        esac
    done < <("${words[1]}" complete --told "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( $#found )) && _describe weft-link found
    (( $#folders )) && compadd -S '' -a folders
}
if [ "$funcstack[1]" = _weft_link ]; then
    _weft_link
else
    compdef _weft_link weft-link
fi
