#compdef fencepost
# Completion of fencepost for zsh. In ~/.zshrc, after compinit: eval "$(fencepost completion zsh)"
_fencepost() {
    local answer name note
    local -a known
    for answer in "${(@f)$(${(Q)words[1]} completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        case "$answer" in
            '') ;;
            $'\t'files) _files ;;
            $'\t'folders) _files -/ ;;
            $'\t'programs) _command_names -e ;;
            *)
                name="${answer%%$'\t'*}" note="${answer#*$'\t'}"
                known+=("${name//:/\\:}${note:+:$note}")
                ;;
        esac
    done
    (( ${#known} )) && _describe fencepost known
}
if [[ "${funcstack[1]}" = _fencepost ]]; then
    _fencepost "$@"
else
    compdef _fencepost fencepost
fi
