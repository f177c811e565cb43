#!/bin/sh
# Slurm job id -> success | failed | running, for profiles/cluster-generic.
if ! answer=$(scontrol -o show job "$1" 2>&1); then
    case "$answer" in
    *"Invalid job id"*) answer="JobState=$(sacct -n -X -o State -j "$1" 2>/dev/null | tr -d ' +')" ;; # long finished
    *) answer="JobState=RUNNING" ;; # the controller does not answer: ask again later
    esac
fi
case "$(printf '%s' "$answer" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')" in
COMPLETED) echo success ;;
PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | PREEMPTED | REQUEUED) echo running ;;
*) echo failed ;;
esac
