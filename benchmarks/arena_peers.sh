#!/usr/bin/env bash
# The peers of benchmarks/arena.py in an environment of their own, which is never the project's: arena_peers.sh DIR
set -euo pipefail
python3 -m venv "$1"
"$1/bin/pip" install --quiet interpret-core==0.7.8 diffprivlib==0.6.6 scikit-learn==1.6.1
"$1/bin/pip" install --quiet torch==2.13.0 opacus==1.6.0 mbi==2.0.0
"$1/bin/pip" list --format=freeze
