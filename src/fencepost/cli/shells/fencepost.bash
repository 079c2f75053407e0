# Completion of fencepost for bash. In ~/.bashrc: eval "$(fencepost completion bash)"
_fencepost() {
    local line="${COMP_LINE:0:COMP_POINT}" answer word cut path
    word="${line##*[[:space:]]}"
    cut="${word%"$2"}" # bash ends words at = and : too, and wants only what comes after
    COMPREPLY=()
    while IFS= read -r answer; do
        case "$answer" in
            $'\t'files | $'\t'folders)
                local kind=-f
                [ "$answer" = $'\t'folders ] && kind=-d
                compopt -o filenames 2>/dev/null
                while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$kind" -- "$2")
                ;;
            $'\t'programs)
                while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -c -- "$2")
                ;;
            *)
                answer="${answer%%$'\t'*}"
                COMPREPLY+=("${answer#"$cut"}")
                ;;
        esac
    done < <("$1" completion words --line "$line" 2>/dev/null)
}
complete -F _fencepost fencepost
