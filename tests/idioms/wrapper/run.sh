#!/usr/bin/env bash
# usage: run.sh PYTHON [ARGUMENTS OF train.py]
set -euo pipefail
python=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
export RUN_NAME="from bash"
echo "starting in $(basename "$PWD")"
"$python" -u train.py "$@"
echo "finished"
