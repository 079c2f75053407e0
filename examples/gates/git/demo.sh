#!/bin/sh
# A late run cannot push, and with the hooks a plain push cannot either.
set -eu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com

git init --quiet --bare -b main site.git
git clone --quiet site.git one 2> /dev/null
cd one
gate="git:$work/site.git#branch=main"
article() { echo "$1" > article.txt && git add article.txt && git commit --quiet -m "$1"; }

fencepost gate raise "$gate" --resource lock:site --fence 1
article "by run 1"
fencepost gate git-push "$gate" --resource lock:site --fence 1
fencepost gate raise "$gate" --resource lock:site --fence 2
article "by run 2"
fencepost gate git-push "$gate" --resource lock:site --fence 2

article "late, by run 1"
code=0
fencepost gate git-push "$gate" --resource lock:site --fence 1 || code=$?
echo "the late push ended with $code"

fencepost gate git-hook install "$work/site.git" > /dev/null
plain=0
git push --quiet origin HEAD:main 2> said || plain=$?
echo "a plain push was told: $(grep gate said)"
echo "the branch says: $(git -C "$work/site.git" show main:article.txt)"
[ "$code" = 77 ] && [ "$plain" != 0 ] && [ "$(git -C "$work/site.git" show main:article.txt)" = "by run 2" ]
