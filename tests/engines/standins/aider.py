#!/usr/bin/env python3
"""Stands in for aider (`aider --message-file`), as its scripting page and its source describe it.

- It prints text. After each answer: "Tokens: 3.2k sent, 150 received. Cost: $0.0098 message, $0.02 session.", where the
  second sum is of the whole process; after each commit of its own "Commit 1234567 …".
- An error of the model is printed ("litellm.AuthenticationError: …") and the exit code is 0 all the same.
- It keeps no session that could be named: after an interruption it begins again.
"""

import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert "--yes-always" in words
prompt = Path(words[words.index("--message-file") + 1]).read_text()

print("Aider v0.86.2\nModel: sonnet with diff edit format\nGit repo: .git with 3 files", flush=True)
if STANDIN == "fails":
    print("litellm.AuthenticationError: AnthropicException - invalid\nx-api-key\nCheck your API key.\n", flush=True)
    sys.exit(0)
print(f"I will {prompt}", flush=True)
print("Tokens: 3.2k sent, 150 received. Cost: $0.0098 message, $0.0098 session.", flush=True)
if STANDIN == "mid-turn":
    time.sleep(600)
print("Applied edit to README\nCommit 1a2b3c4 docs: aider answers", flush=True)
print("Tokens: 3.9k sent, 42 received. Cost: $0.01 message, $0.02 session.", flush=True)
