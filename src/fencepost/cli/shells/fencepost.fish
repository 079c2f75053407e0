# Completion of fencepost for fish. Once: fencepost completion fish > ~/.config/fish/completions/fencepost.fish
function __fencepost_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for answer in ($program completion words -- $words $current 2>/dev/null)
        switch $answer
            case \tfiles
                __fish_complete_path $current
            case \tfolders
                __fish_complete_directories $current
            case \tprograms
                __fish_complete_command
            case '*'
                echo $answer
        end
    end
end
complete -c fencepost -f -a '(__fencepost_words)'
